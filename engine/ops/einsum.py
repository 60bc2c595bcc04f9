"""The op einsum."""

import re
import string
from collections.abc import Sequence
from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS, wide
from palmkit.engine.ops.products import Types, dims_of
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits

_TERM = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


def _terms(equation: str) -> tuple[list[str], str]:
    """Return the labels of each input and of the output, which defaults as in numpy."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not all(map(_TERM.fullmatch, (*terms, right))):
        raise ValueError(f"not an equation: {equation}")
    if not arrow:
        once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    return terms, right


def _infer(*inputs: Type, equation: str) -> Type:
    dtype = need_dtype("einsum", *inputs, among=NUMBERS)
    terms, result = _terms(equation)
    if len(terms) != len(inputs):
        raise ShapeError(f"einsum: {equation} is not of {len(inputs)} inputs")
    sizes: dict[str, int] = {}
    dotted: tuple[int, ...] = ()
    for term, x in zip(terms, inputs, strict=True):
        labels = _spread(term, x)
        for label, dim in zip(labels, x.dims, strict=True):
            if label != "." and sizes.setdefault(label, dim) != dim:
                if 1 not in (sizes[label], dim):
                    raise ShapeError(f"einsum: {label} of {equation} is {sizes[label]} and {dim}")
                sizes[label] = max(sizes[label], dim)
        between = tuple(d for label, d in zip(labels, x.dims, strict=True) if label == ".")
        try:
            dotted = np.broadcast_shapes(dotted, between)
        except ValueError:
            raise ShapeError(f"einsum: cannot broadcast {dotted} with {between}") from None
    labels = result.replace("...", ".")
    if len(set(labels)) != len(labels) or not set(labels) - {"."} <= set(sizes):
        raise ShapeError(f"einsum: {equation} gives labels that are twice there or nowhere")
    if dotted and "." not in labels:
        raise ShapeError(f"einsum: {equation} has no ... for the axes {dotted}")
    dims = [dim for label in labels for dim in (dotted if label == "." else (sizes[label],))]
    return Type(dtype, tuple(dims))


def labels_of(equation: str, types: Sequence[Type]) -> list[str]:
    """Return a letter for each axis of each input and of the output, also for those of `...`."""
    terms, result = _terms(equation)
    most = max(len(x.shape) - len(t.replace("...", "")) for t, x in zip(terms, types, strict=True))
    free = "".join(letter for letter in string.ascii_letters if letter not in equation)[:most]
    found: list[str] = []
    for term, x in zip(terms, types, strict=True):
        dots = len(x.shape) - len(term.replace("...", ""))
        found.append(term.replace("...", free[len(free) - dots :] if dots else ""))
    return [*found, result.replace("...", free)]


def _spread(term: str, x: Type) -> Sequence[str]:
    """Return a label for each axis; "." for one of those that ... stands for."""
    named = len(term.replace("...", ""))
    dots = len(x.shape) - named
    if dots < 0 or (dots and "..." not in term):
        raise ShapeError(f"einsum: {term or 'a scalar'} does not fit {x}")
    return term.replace("...", "." * dots)


def _macs(node: Node, inputs: Types, outputs: Types) -> int:
    """Count the product of all letters' sizes, once for each product of two inputs."""
    equation = node.text("equation").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    sizes: dict[str, int] = {}
    batch = 1
    for term, type in zip(terms, inputs, strict=False):
        dims = dims_of(type)
        head, dots, tail = term.partition("...")
        covered = len(dims) - len(head) - len(tail) if dots else 0
        sizes.update(zip(head, dims, strict=False))
        sizes.update(zip(tail, dims[len(dims) - len(tail) :], strict=False))
        batch = max(batch, prod(dims[len(head) : len(head) + covered]))
    return batch * prod(sizes.values()) * max(0, len(terms) - 1)


@op(
    _infer,
    case((3, 4), equation="ij->ji"),
    case((3, 4), equation="ij->i"),
    case((3, 3), equation="ii->i"),
    case((5,), (5,), equation="i,i"),
    case((5, 2, 3), (5, 3, 4), equation="bij, bjk -> bik"),
    case((2, 5, 3), (5, 3, 4), equation="aij,ijk->ak"),
    case((2, 5, 3, 4), (2, 5, 4, 3), equation="...ij,...ji->...i"),
    case((2, 3), (3, 4), (4,), equation="ij,jk,k->i"),
    case((2, 3), (3, 4), equation="ij,jk"),
    traits=Traits(family=Family.MATRICES),
    macs=_macs,
)
def einsum(*inputs: Array, equation: str) -> Array:
    """The sum of products that the equation describes, as numpy.einsum."""
    terms, result = _terms(equation)
    y = np.einsum(f"{','.join(terms)}->{result}", *map(wide, inputs), optimize=True)
    return np.asarray(y, inputs[0].dtype)
