"""The graph: nodes in running order, values by name.

A value is a graph input, a constant or the output of exactly one node. Ops mean what the ONNX
operator of the same name means (NCHW, ONNX padding and axes), in its newest opset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from math import prod
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.cached import cached
from palmkit.engine.errors import ModelError, UnsupportedError

Array: TypeAlias = NDArray[Any]
Dim: TypeAlias = int | str
Attr: TypeAlias = (
    "int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Graph"
)

DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
)
NARROW_DTYPES = DTYPES[DTYPES.index("bfloat16") :]
ANY_RANK = ("...",)
MOST_NESTED = 32
MOST_DIMS = 32
MOST_ELEMENTS = 1 << 44


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype called `name`, those that numpy lacks from the package ml_dtypes.

    Raises UnsupportedError if that package is missing, ModelError for an unknown name.
    """
    if name not in DTYPES:
        raise ModelError(f"unknown dtype: {name}")
    if name in NARROW_DTYPES:
        try:
            import_module("ml_dtypes")
        except ImportError:
            raise UnsupportedError(
                f'{name} needs the package ml_dtypes: pip install "palmkit[onnx]"'
            ) from None
    return np.dtype(name)


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a numpy dtype, which numpy composes anew for each question."""
    return str(dtype.name)


@dataclass(frozen=True)
class Type:
    """The dtype and shape of a value, such as float32[1, 3, height, 320].

    A dim that is a name is not known yet. float32[...], the shape ANY_RANK, is the type of a value
    whose rank is not known either.
    """

    dtype: str
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        """Return the type as docstrings write it, such as float32[1, 3, height, 320]."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @staticmethod
    def of(array: Array) -> Type:
        """Return the type of a numpy array."""
        return Type(dtype_name(array.dtype), array.shape)

    @property
    def has_rank(self) -> bool:
        """Whether the number of dims is known."""
        return self.shape != ANY_RANK

    @cached
    def is_static(self) -> bool:
        """Whether every dim is a number."""
        return all(isinstance(dim, int) for dim in self.shape)

    @cached
    def dims(self) -> tuple[int, ...]:
        """Return the shape, all numbers; raise ModelError if a dim is a name."""
        dims = tuple(dim for dim in self.shape if isinstance(dim, int))
        if len(dims) != len(self.shape):
            raise ModelError(f"dims are not known yet: {self}")
        return dims

    @cached
    def elements(self) -> int:
        """Return the number of elements of a static type."""
        return prod(self.dims)

    @property
    def size_bytes(self) -> int:
        """Return the number of bytes of a static type."""
        return self.elements * numpy_dtype(self.dtype).itemsize

    def fits(self, shape: Sequence[int], sizes: dict[str, int]) -> bool:
        """Return whether a shape has the type's dims; `sizes` gets the size of each name.

        The same name always stands for the same size.
        """
        return (
            not self.has_rank
            or len(shape) == len(self.shape)
            and all(
                size == (dim if isinstance(dim, int) else sizes.setdefault(dim, size))
                for size, dim in zip(shape, self.shape, strict=True)
            )
        )


UNKNOWN = Type("undefined", ANY_RANK)


def what_no_type_has(type: Type) -> str:
    """Return why no value can be of this type, such as a dim below 0; "" if one can."""
    if len(type.shape) > MOST_DIMS:
        return f"more than {MOST_DIMS} dims"
    if any(isinstance(dim, int) and dim < 0 for dim in type.shape):
        return "a dim below 0"
    if type.is_static and type.elements > MOST_ELEMENTS:
        return f"more than {MOST_ELEMENTS} elements"
    return ""


@dataclass(frozen=True, eq=False)
class Known(Type):
    """The type of a constant together with its value, as type rules see it."""

    value: Array

    @staticmethod
    def of(array: Array) -> Known:
        """Return a constant's type and value."""
        return Known(dtype_name(array.dtype), array.shape, array)


def _no_default(op: str, attribute: str) -> Attr | None:
    return None


# What stands for an op's attribute that is left out. engine.ops, which is above this, declares it.
_default_of: Callable[[str, str], Attr | None] = _no_default


def declare_defaults(default_of: Callable[[str, str], Attr | None]) -> None:
    """Set the function that gives attributes their defaults, `default_of(op, attribute)`.

    It returns None where the attribute has no default, and raises ModelError where the op has no
    such attribute.
    """
    global _default_of
    _default_of = default_of


@dataclass(frozen=True)
class Node:
    """One op: the names it reads ("" for an optional input left out) and writes, its attributes.

    attrs: a Graph among them is the body of a control-flow op; it reads nothing from outside but
    what the node hands to it.
    name: the node's name in the source model; for messages and profiles only.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict[str, Attr])
    name: str = field(default="", compare=False)

    def __str__(self) -> str:
        """Return the node as text, y = op(x, w, attr=1)."""
        args = [*self.inputs]
        for key, value in sorted(self.attrs.items()):
            args.append(f"{key}={{{value}}}" if isinstance(value, Graph) else f"{key}={value!r}")
        return f"{', '.join(self.outputs)} = {self.op}({', '.join(args)})"

    @property
    def label(self) -> str:
        """What messages and profiles call it: its name, else the first value that it writes."""
        return self.name or next((name for name in self.outputs if name), self.op)

    @cached
    def bodies(self) -> tuple[Graph, ...]:
        """The graphs among the attributes."""
        return tuple(value for value in self.attrs.values() if isinstance(value, Graph))

    def has(self, attribute: str) -> bool:
        """Return whether the attribute is given, and not None or empty."""
        return self.attrs.get(attribute) not in (None, "", ())

    def integer(self, attribute: str) -> int:
        """Return an integer attribute or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        return int(value) if isinstance(value, int) else self._expected("an integer", attribute)

    def number(self, attribute: str) -> float:
        """Return a number attribute or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        if not isinstance(value, int | float):
            self._expected("a number", attribute)
        return float(value)

    def text(self, attribute: str) -> str:
        """Return a text attribute or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        return value if isinstance(value, str) else self._expected("text", attribute)

    def integers(self, attribute: str) -> tuple[int, ...]:
        """Return an attribute of integers or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        if not (isinstance(value, tuple) and all(isinstance(each, int) for each in value)):
            self._expected("integers", attribute)
        return tuple(int(each) for each in value)

    def numbers(self, attribute: str) -> tuple[float, ...]:
        """Return an attribute of numbers or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        if not (isinstance(value, tuple) and all(isinstance(each, int | float) for each in value)):
            self._expected("numbers", attribute)
        return tuple(float(each) for each in value)

    def texts(self, attribute: str) -> tuple[str, ...]:
        """Return an attribute of texts or its default; raise ModelError for any other value."""
        value = self._attribute(attribute)
        if not (isinstance(value, tuple) and all(isinstance(each, str) for each in value)):
            self._expected("texts", attribute)
        return tuple(str(each) for each in value)

    def _attribute(self, attribute: str) -> Attr | None:
        try:
            return self.attrs[attribute]
        except KeyError:
            return _default_of(self.op, attribute)

    def _expected(self, kind: str, attribute: str) -> NoReturn:
        got = self._attribute(attribute)
        what = "none" if got is None else repr(got)
        where = f"node {self.name or next(filter(None, self.outputs), '')}"
        raise ModelError(f"{where}: {self.op}: attribute {attribute}: expected {kind}, got {what}")


@dataclass(frozen=True)
class Graph:
    """A model as a graph; passes return a new one.

    inputs, outputs: name -> Type, in the source's order and with the source's names.
    constants: read-only arrays by value name.
    metadata: what the model file says of the model (kit, name, version, labels, licence, ...).
    """

    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(default_factory=dict[str, Array])
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])

    def with_nodes(
        self, nodes: tuple[Node, ...], constants: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the same graph with other nodes, and other constants if given."""
        return replace(
            self, nodes=nodes, constants=self.constants if constants is None else constants
        )

    @property
    def is_static(self) -> bool:
        """Whether every input has a static type."""
        return all(type.is_static for type in self.inputs.values())

    def __str__(self) -> str:
        """Return the graph as readable text, one line a node."""
        lines = [f"input {name}: {type}" for name, type in self.inputs.items()]
        lines += [f"constant {name}: {Type.of(value)}" for name, value in self.constants.items()]
        lines += [str(node) for node in self.nodes]
        lines += [f"output {name}: {type}" for name, type in self.outputs.items()]
        return "\n".join(lines)


def producers(graph: Graph) -> dict[str, Node]:
    """Return the node that writes each value."""
    return {name: node for node in graph.nodes for name in node.outputs if name}


def consumers(graph: Graph) -> dict[str, list[Node]]:
    """Return the nodes that read each value, in order; graph outputs do not count."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            if name:
                readers.setdefault(name, []).append(node)
    return readers


def fresh_name(graph_names: set[str], stem: str) -> str:
    """Return a value name made from `stem` that is not in `graph_names`, and add it to them."""
    name, count = stem, 0
    while name in graph_names:
        count += 1
        name = f"{stem}.{count}"
    graph_names.add(name)
    return name


def value_names(graph: Graph) -> set[str]:
    """Return every value name in use."""
    names = {*graph.inputs, *graph.outputs, *graph.constants}
    for node in graph.nodes:
        names.update(node.outputs)
    return names


def _check_body(body: Graph, owner: str, depth: int) -> None:
    try:
        _check_values(body, depth + 1)
    except ModelError as error:
        raise ModelError(f"{owner}: in its body: {error}") from None


def check(graph: Graph) -> None:
    """Raise ModelError unless every value is written once and before it is read."""
    _check_values(graph, 0)
    for name, type in [*graph.inputs.items(), *graph.outputs.items()]:
        if type.dtype not in (*DTYPES, UNKNOWN.dtype):
            raise ModelError(f"value {name}: unknown dtype: {type.dtype}")
        if wrong := what_no_type_has(type):
            raise ModelError(f"value {name}: {type}: {wrong}")
    for name, value in graph.constants.items():
        if value.ndim > MOST_DIMS:
            raise ModelError(f"constant {name}: more than {MOST_DIMS} dims")


def _check_values(graph: Graph, depth: int) -> None:
    if depth > MOST_NESTED:
        raise ModelError(f"bodies of control flow are nested over {MOST_NESTED} deep")
    written = set(graph.inputs)
    for name in graph.constants:
        if name in written:
            raise ModelError(f"value is both an input and a constant: {name}")
        written.add(name)
    for node in graph.nodes:
        for name in node.inputs:
            if name and name not in written:
                raise ModelError(f"{node.op} {node.name}: reads a value nobody writes: {name}")
        for name in node.outputs:
            if name in written:
                raise ModelError(f"{node.op} {node.name}: value is written twice: {name}")
            if name:
                written.add(name)
        if not any(node.outputs):
            raise ModelError(f"{node.op} {node.name}: writes nothing")
        for body in node.bodies:
            _check_body(body, f"{node.op} {node.name}", depth)
    for name in graph.outputs:
        if name not in written:
            raise ModelError(f"output is written by nobody: {name}")
