"""The ops, one file each; the file of an op is its whole definition.

`infer` gets one Type an input (None for an optional input left out; a Known, which carries the
value, for a constant) and the attributes as keywords, and returns a Type, or a tuple of them. The
decorated numpy function gets arrays in the same places and returns an array, or a tuple. Attributes
and their defaults are those of the ONNX operator, newest opset. They stand in the numpy function's
signature: both functions get all of them.

A rule whose result depends on values that only a run gives (read by `known_value`, or how many
elements are not zero) raises Undetermined: the type is then not known beforehand.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.ir import (
    Array,
    Attr,
    Graph,
    Known,
    Node,
    Type,
    declare_defaults,
    what_no_type_has,
)
from palmkit.engine.ops.attributes import Attribute, check_attrs, declared, hints_of, parts_of
from palmkit.engine.ops.traits import PLAIN, Traits

Results: TypeAlias = tuple[Array, ...]
Macs: TypeAlias = Callable[[Node, Sequence[Type | None], Sequence[Type | None]], int]


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
    """Make a case: a shape is an input of `dtype`, an array a constant, None an input left out."""
    return Case(
        tuple(Type(dtype, x) if isinstance(x, tuple) else x for x in inputs), attrs, outputs
    )


@dataclass(frozen=True)
class Op:
    """One operator: its type rule, its meaning in numpy, and its test cases.

    rule: gives the types of the outputs; it is called with every attribute, `infer` adds those that
    are left out.
    pure: whether the outputs depend on nothing but the inputs; a random number does not.
    macs: counts the multiply-accumulates of a node from the types of its inputs and outputs; None
    for ops that multiply neither matrices nor kernels.
    attributes: the attributes by name. defaults: the defaults of those that may be left out; None
    for no value.
    """

    name: str
    rule: Callable[..., Type | tuple[Type, ...]]
    reference: Callable[..., Array | Results]
    cases: Sequence[Case]
    pure: bool
    traits: Traits
    macs: Macs | None
    attributes: Mapping[str, Attribute]
    defaults: Mapping[str, Attr]

    def infer(self, *inputs: Type | None, **attrs: Attr) -> Type | tuple[Type, ...]:
        """Return the types of the outputs.

        Raises ShapeError for wrong inputs, TypeError for unknown attributes.
        """
        return self.rule(*inputs, **{**self.defaults, **attrs})


class Undetermined(UnsupportedError):
    """The type of a result is not known before the model runs."""


_SMALL_ELEMENTS = 1024
_MOST_WORK = 1 << 24
_PRODUCTS_AT_ONCE = 64

_ops: dict[str, Op] = {}


def op(
    rule: Callable[..., Type | tuple[Type, ...]],
    *cases: Case,
    pure: bool = True,
    traits: Traits = PLAIN,
    macs: Macs | None = None,
    like: Mapping[str, Attribute] | None = None,
) -> Callable[[Callable[..., Array | Results]], Op]:
    """Register the decorated numpy function as an op of its own name.

    like: the op whose attributes it takes as **attrs, or whose defaults it uses.
    """

    def register(reference: Callable[..., Array | Results]) -> Op:
        name = reference.__name__.rstrip("_")
        if name in _ops:
            raise ValueError(f"two ops are called {name!r}")
        attributes = {**declared(reference), **(like or {})}
        defaults: Any = {name: it.default for name, it in attributes.items() if not it.required}
        _ops[name] = Op(name, rule, reference, cases, pure, traits, macs, attributes, defaults)
        return _ops[name]

    return register


@cache
def _modules() -> dict[str, str]:
    """Return the module of each op, named like it, with _ after Python's own names (and_, sum_)."""
    return {m.name.rstrip("_"): f"{__name__}.{m.name}" for m in pkgutil.iter_modules(__path__)}


def names() -> Collection[str]:
    """Return the names of all ops; no op is imported for it."""
    return _modules().keys()


@cache
def registry() -> dict[str, Op]:
    """Return every op by name, from the files of this folder."""
    for module in _modules().values():
        importlib.import_module(module)
    return _ops


def find(name: str) -> Op:
    """Return the op called `name`; raise UnsupportedError if there is none."""
    if name not in _ops and name in _modules():
        importlib.import_module(_modules()[name])
    try:
        return _ops[name]
    except KeyError:
        raise UnsupportedError(f"no op {name!r}; known: {', '.join(sorted(registry()))}") from None


def traits_of(name: str) -> Traits:
    """Return the traits of the op called `name`; raise UnsupportedError if there is none."""
    return find(name).traits


def _default_of(name: str, attribute: str) -> "Attr | None":
    op = find(name)
    if attribute not in op.attributes:
        raise ModelError(f"{name} has no attribute {attribute}")
    return op.defaults.get(attribute)


declare_defaults(_default_of)


def known_value(type: Type | None, what: str) -> Array:
    """Return the value of an input that a type depends on.

    Raises Undetermined if only a run gives it.
    """
    if isinstance(type, Known):
        return type.value
    raise Undetermined(f"{what}: expected a constant, got {type}")


def infer_node(node: Node, inputs: Sequence[Type | None]) -> tuple[Type, ...]:
    """Return the types of the node's outputs; errors name the node."""
    with _errors_name(node, inputs):
        _check_node(node)
        types = find(node.op).infer(*inputs, **node.attrs)
    types = (types,) if isinstance(types, Type) else types
    _need_outputs(node, len(types))
    for each in types:
        wrong = what_no_type_has(each)
        if wrong:
            name = node.label
            raise ShapeError(f"node {name}: {node.op} gives {each}: {wrong}")
    return types


def _check_node(node: Node) -> None:
    """Raise ModelError or TypeError for errors that do not depend on types; checked once a node."""
    if not node.__dict__.get("_is_checked"):
        op = find(node.op)
        check_attrs(node.attrs, op.attributes)
        _check_inputs(node, op.rule)
        for body in node.bodies:
            for each in body.nodes:
                with _errors_name(each, ()):
                    _check_node(each)
        node.__dict__["_is_checked"] = True


def _check_inputs(node: Node, rule: Callable[..., object]) -> None:
    """Raise ModelError for too many inputs, or for a required one left out."""
    places, takes_more = _places(rule)
    if len(node.inputs) > len(places) and not takes_more:
        raise ModelError(f"{node.op} takes {len(places)} inputs, got {len(node.inputs)}")
    for i, (name, is_needed) in enumerate(places):
        if is_needed and not (i < len(node.inputs) and node.inputs[i]):
            raise ModelError(f"{node.op}: its input {name} is left out")


def input_names(op: str) -> tuple[str, ...]:
    """Return the op's names for its inputs, except variadic ones."""
    return tuple(name for name, _ in _places(find(op).rule)[0])


@cache
def _places(rule: Callable[..., object]) -> tuple[tuple[tuple[str, bool], ...], bool]:
    """Return a rule's inputs, each with whether it is required; and whether it takes more."""
    hints = hints_of(rule)
    parameters = inspect.signature(rule).parameters.values()
    named = tuple(
        (each.name, type(None) not in parts_of(hints[each.name])[1])
        for each in parameters
        if each.kind is each.POSITIONAL_OR_KEYWORD
    )
    return named, any(each.kind is each.VAR_POSITIONAL for each in parameters)


@contextmanager
def _errors_name(node: Node, inputs: Sequence[Type | None]) -> Generator[None]:
    try:
        yield
    except PalmError as error:
        raise type(error)(f"node {node.label}: {error}") from None
    except MemoryError:
        raise ModelError(f"node {node.label}: {node.op} needs more memory than there is") from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        got = ", ".join(map(str, inputs))
        raise ModelError(
            f"node {node.label}: {node.op} does not take ({got}), {dict(node.attrs)}: {error}"
        ) from None


def infer_types(graph: Graph) -> dict[str, Type]:
    """Return the type of every value that can be known; Known for constants.

    A value that depends on a dim that is only a name, or on what only a run gives, is left out.
    Small values computed from constants and shapes alone are Known, too: that is how models compute
    the shapes they need.
    """
    found: dict[str, Type] | None = graph.__dict__.get("_types")
    if found is None:
        found = graph.__dict__["_types"] = _infer_all(graph)
    return dict(found)


def _infer_all(graph: Graph) -> dict[str, Type]:
    types: dict[str, Type] = dict(graph.inputs)
    types.update({name: Known.of(value) for name, value in graph.constants.items()})
    for node in graph.nodes:
        if all(not name or (name in types and types[name].is_static) for name in node.inputs):
            inputs = [types[name] if name else None for name in node.inputs]
            inferred = infer_outputs(node, inputs)
            types.update({n: t for n, t in zip(node.outputs, inferred, strict=False) if n})
        else:
            with _errors_name(node, ()):
                _check_node(node)
    return types


def infer_outputs(node: Node, inputs: Sequence[Type | None]) -> tuple[Type, ...]:
    """Return the types of the node's outputs; () if unknown.

    Small outputs of constants are Known.
    """
    # A node caches its last types, since every pass and every plan asks for them again.
    last = node.__dict__.get("_inferred")
    if last is not None and len(last[0]) == len(inputs) and all(map(_is_same, last[0], inputs)):
        remembered: tuple[Type, ...] = last[1]
        return remembered
    types = _infer_outputs(node, inputs)
    node.__dict__["_inferred"] = tuple(inputs), types
    return types


def _is_same(a: Type | None, b: Type | None) -> bool:
    if a is b:
        return True
    if isinstance(a, Known) or isinstance(b, Known):
        return isinstance(a, Known) and isinstance(b, Known) and a.value is b.value
    return a == b


def _infer_outputs(node: Node, inputs: Sequence[Type | None]) -> tuple[Type, ...]:
    known = [type.value if isinstance(type, Known) else None for type in inputs]
    constant = (
        find(node.op).pure
        and not node.bodies
        and all(
            type is None or value is not None for type, value in zip(inputs, known, strict=True)
        )
    )
    elements = sum(type.elements for type in inputs if type is not None)
    try:
        types = infer_node(node, inputs)
        elements += sum(type.elements for type in types)
        if not constant or elements > _SMALL_ELEMENTS or not is_light(node, inputs, types):
            return types
    except Undetermined:
        if not constant or elements > _SMALL_ELEMENTS or not is_light(node, inputs):
            return ()
    return tuple(Known.of(result) for result in run_reference(node, known))


def is_light(
    node: Node, inputs: Sequence[Type | None], outputs: Sequence[Type | None] = ()
) -> bool:
    """Return whether computing the node costs little more than reading inputs and writing outputs.

    Costly nodes are those whose kernel lies mostly beside the picture, that read many places
    between two pixels, that sum over the product of many axes, or that are long along an axis
    without making anything there.
    """
    pads = _numbers(node.attrs.get("pads"))
    half = len(pads) // 2
    reach = prod(1 + max(map(abs, ends)) for ends in zip(pads[:half], pads[half:], strict=False))
    for name in ("dilations", "kernel_shape", "sampling_ratio", "sampling_ratio"):
        reach *= prod(max(1, abs(number)) for number in _numbers(node.attrs.get(name)))
    if node.op == "einsum":
        reach = _products(node, [type for type in inputs if type is not None]) // _PRODUCTS_AT_ONCE
    lengths = (prod(max(1, dim) for dim in type.dims) for type in outputs if type is not None)
    return max(reach, *lengths, 0) <= _MOST_WORK


def _products(node: Node, inputs: Sequence[Type]) -> int:
    """Return how many numbers einsum multiplies."""
    from palmkit.engine.ops.einsum import labels_of

    sizes: dict[str, int] = {}
    for labels, type in zip(labels_of(str(node.attrs["equation"]), inputs), inputs, strict=False):
        for label, dim in zip(labels, type.dims, strict=True):
            sizes[label] = max(dim, sizes.get(label, 1))
    return prod(sizes.values())


def _numbers(value: "Attr | None") -> tuple[int, ...]:
    """Return an attribute that is one integer or several as a tuple."""
    values = value if isinstance(value, tuple) else (value,)
    return tuple(each for each in values if isinstance(each, int))


def _need_outputs(node: Node, count: int) -> None:
    if count < len(node.outputs):
        raise ModelError(
            f"node {node.label}: {node.op} gives {count} outputs, "
            f"the model names {len(node.outputs)}"
        )


def run_reference(node: Node, inputs: Sequence[Array | None]) -> Results:
    """Return the node's outputs in numpy; errors name the node."""
    types = [None if value is None else Type.of(value) for value in inputs]
    with np.errstate(all="ignore"), _errors_name(node, types):
        op = find(node.op)
        results = op.reference(*inputs, **{**op.defaults, **node.attrs})
    results = results if isinstance(results, tuple) else (results,)
    _need_outputs(node, len(results))
    return tuple(np.asarray(result) for result in results)
