"""The ops, one file each; a file here is an op's whole definition.

`infer` gets one Type an input (None for an optional input left out; a Known, which carries the
value, for a constant) and the attributes as keywords, and returns a Type, or a tuple of them.
The decorated numpy function gets arrays in the same places and returns an array, or a tuple.
Attributes and their defaults are those of the ONNX operator, newest opset.
"""

import importlib
import pkgutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np

from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Known, Node, Type

Results: TypeAlias = tuple[Array, ...]


@dataclass(frozen=True)
class Case:
    """Inputs and attributes that every backend must get right.

    inputs: a Type is filled with seeded random numbers; an array is a constant of the graph;
    None is an optional input left out.
    """

    inputs: tuple[Type | Array | None, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict[str, Attr])
    outputs: int = 1


def case(
    *inputs: tuple[int, ...] | Array | None, dtype: str = "float32", outputs: int = 1, **attrs: Attr
) -> Case:
    """A case: a shape is an input of `dtype`, an array a constant, None an input left out."""
    return Case(
        tuple(Type(dtype, x) if isinstance(x, tuple) else x for x in inputs), attrs, outputs
    )


@dataclass(frozen=True)
class Op:
    """One operator: its type rule, its meaning in numpy, and its test cases."""

    name: str
    infer: Callable[..., Type | tuple[Type, ...]]
    reference: Callable[..., Array | Results]
    cases: Sequence[Case]


_SMALL_ELEMENTS = 1024

_ops: dict[str, Op] = {}


def op(
    infer: Callable[..., Type | tuple[Type, ...]], *cases: Case
) -> Callable[[Callable[..., Array | Results]], Op]:
    """Register the decorated numpy function as an op of its own name."""

    def register(reference: Callable[..., Array | Results]) -> Op:
        name = reference.__name__.rstrip("_")
        if name in _ops:
            raise ValueError(f"two ops are called {name!r}")
        return _ops.setdefault(name, Op(name, infer, reference, cases))

    return register


@cache
def _modules() -> dict[str, str]:
    """The module of each op: named like the op, with _ behind Python's own names (and_, sum_)."""
    return {m.name.rstrip("_"): f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__)}


@cache
def registry() -> dict[str, Op]:
    """Every op by name, from the files of this folder."""
    for module in _modules().values():
        importlib.import_module(module)
    return _ops


def find(name: str) -> Op:
    """The op called `name`, or UnsupportedError."""
    if name not in _ops and name in _modules():
        importlib.import_module(_modules()[name])
    try:
        return _ops[name]
    except KeyError:
        raise UnsupportedError(f"no op {name!r}; known: {', '.join(sorted(registry()))}") from None


def known_value(type: Type | None, what: str) -> Array:
    """The value of an input that must be constant; UnsupportedError if it is not."""
    if isinstance(type, Known):
        return type.value
    raise UnsupportedError(f"{what}: expected a constant, got {type}")


def infer_node(node: Node, inputs: Sequence[Type | None]) -> tuple[Type, ...]:
    """The types of the node's outputs; errors name the node."""
    with _errors_name(node, inputs):
        op = find(node.op)
        check_attrs(node.attrs, op.reference, op.infer)
        types = op.infer(*inputs, **node.attrs)
    types = (types,) if isinstance(types, Type) else types
    for each in types:
        if any(isinstance(dim, int) and dim < 0 for dim in each.shape):
            raise ShapeError(f"node {node.name or node.outputs[0]}: {node.op} gives {each}")
    return types


def check_attrs(attrs: Mapping[str, Attr], *takers: Callable[..., object]) -> None:
    """Raise TypeError for an attribute of another kind than a taker's annotation, the last's."""
    hints = {name: hint for taker in takers for name, hint in _hints(taker).items()}
    for name, value in attrs.items():
        if name in hints and not _is_a(hints[name], value):
            raise TypeError(f"attribute {name}: expected {hints[name]}, got {value!r}")


_hints = cache(get_type_hints)


def _is_a(hint: Any, value: Attr) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_is_a(get_args(hint)[0], each) for each in value)
    if get_args(hint):
        return any(_is_a(each, value) for each in get_args(hint))
    return isinstance(value, (int, float) if hint is float else hint)


@contextmanager
def _errors_name(node: Node, inputs: Sequence[Type | None]) -> Generator[None]:
    try:
        yield
    except PalmError as error:
        raise type(error)(f"node {node.name or node.outputs[0]}: {error}") from None
    except (TypeError, ValueError, LookupError, ArithmeticError) as error:
        got = ", ".join(map(str, inputs))
        raise ModelError(
            f"node {node.name or node.outputs[0]}: {node.op} does not take ({got}), "
            f"{dict(node.attrs)}: {error}"
        ) from None


def infer_types(graph: Graph) -> dict[str, Type]:
    """The type of every value that can be known; Known for constants.

    A value that hangs on a dim that is only a name is left out. Small values computed from
    constants and shapes alone are Known, too: that is how models compute the shapes they need.
    """
    types: dict[str, Type] = dict(graph.inputs)
    types.update({name: Known.of(value) for name, value in graph.constants.items()})
    for node in graph.nodes:
        if all(not name or (name in types and types[name].is_static) for name in node.inputs):
            inputs = [types[name] if name else None for name in node.inputs]
            inferred = _compute_if_small(node, inputs, infer_node(node, inputs))
            types.update({n: t for n, t in zip(node.outputs, inferred, strict=False) if n})
    return types


def _compute_if_small(
    node: Node, inputs: Sequence[Type | None], types: tuple[Type, ...]
) -> tuple[Type, ...]:
    known = [type.value if isinstance(type, Known) else None for type in inputs]
    if any(type is not None and value is None for type, value in zip(inputs, known, strict=True)):
        return types
    if sum(type.elements for type in (*inputs, *types) if type is not None) > _SMALL_ELEMENTS:
        return types
    return tuple(Known.of(np.asarray(result)) for result in run_reference(node, known))


def run_reference(node: Node, inputs: Sequence[Array | None]) -> Results:
    """The node's outputs in numpy; errors name the node."""
    types = [None if value is None else Type.of(value) for value in inputs]
    with np.errstate(all="ignore"), _errors_name(node, types):
        results = find(node.op).reference(*inputs, **node.attrs)
    results = results if isinstance(results, tuple) else (results,)
    return tuple(np.asarray(result) for result in results)
