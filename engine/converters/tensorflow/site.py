"""One TensorFlow node as its rule sees it, and the rules."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from palmkit.engine.converters.damage import DAMAGE, reason
from palmkit.engine.converters.tensorflow.building import Building
from palmkit.engine.converters.tensorflow.control_flow import structured
from palmkit.engine.converters.tensorflow.dilation import dilations
from palmkit.engine.converters.tensorflow.nodes import Body, Operation, Ref, output_count
from palmkit.engine.converters.tensorflow.schema import dtype_name
from palmkit.engine.converters.tensorflow.stand_ins import Complex, EmptyList, Missing, Value
from palmkit.engine.converters.tensorflow.values import Fact
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Type, numpy_dtype

Rule: TypeAlias = Callable[["Site"], None]
RULES: dict[str, Rule] = {}
COMPLEX_RULES: dict[str, Rule] = {}


def complex_rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these operators for complex inputs."""

    def register(function: Rule) -> Rule:
        COMPLEX_RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of these TensorFlow operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def run(building: Building, body: Body, arguments: Mapping[str, Value]) -> list[Value]:
    """Add the body's operations, and return what stands for its outputs."""
    body = structured(body)
    building.library.spend(len(body.operations))
    values: dict[Ref, Value] = {(name, 0): value for name, value in arguments.items()}
    dilated = dilations(body)
    for operation in body.in_order():
        if operation.name not in arguments:
            site = Site(building, operation, values, dilated.get(operation.name, ()))
            with _errors_name(operation):
                site.convert()
    return [_found(values, ref) for ref in body.outputs]


@contextmanager
def _errors_name(operation: Operation) -> Generator[None]:
    """Turn errors that a rule meets in a damaged node into ModelError."""
    try:
        yield
    except PalmError:
        raise
    except DAMAGE as error:
        raise ModelError(
            f"node {operation.name}: {operation.op} is damaged: {reason(error)}"
        ) from error


def _found(values: Mapping[Ref, Value], ref: Ref) -> Value:
    if ref not in values:
        return Missing(f"output {ref[1]} of node {ref[0]} is not supported")
    return values[ref]


class Site:
    """One TensorFlow node: what its rule reads, and how the rule writes."""

    def __init__(
        self,
        building: Building,
        operation: Operation,
        values: dict[Ref, Value],
        dilation: tuple[int, ...] = (),
    ) -> None:
        """Prepare to convert an operation.

        values: what stands for the outputs of the nodes before it.
        dilation: the dilation of the convolution that the node is a part of.
        """
        self.dilation = dilation
        self.building = building
        self.operation = operation
        self.name, self.op, self.attrs = operation.name, operation.op, operation.attrs
        self._values = values

    def convert(self) -> None:
        """Apply the node's rule, or give a restored variable its value."""
        value = self.operation.value
        if value is not None:
            missing = isinstance(value, str)
            found = Missing(value) if missing else self.building.constant(value, self.name)
            self.finish(found)
            return
        is_complex = any(isinstance(self.raw(index), Complex) for index in range(self.count))
        rules = COMPLEX_RULES if is_complex else RULES
        if self.op not in rules:
            raise self.unsupported("complex numbers" if is_complex else "real numbers")
        rules[self.op](self)

    def of(self, inputs: Iterable[Value]) -> list[Value]:
        """Return the outputs that the node has if these are its inputs."""
        refs = tuple((f"{self.name}/{number}", 0) for number in range(self.count))
        values = dict(zip(refs, inputs, strict=True))
        RULES[self.op](Site(self.building, replace(self.operation, inputs=refs), values))
        count = sum(name == self.name for name, _ in values)
        return [values[self.name, number] for number in range(count)]

    # Inputs

    @property
    def count(self) -> int:
        """The number of inputs."""
        return len(self.operation.inputs)

    @property
    def output_count(self) -> int:
        """The number of outputs."""
        return output_count(self.operation)

    def raw(self, index: int) -> Value:
        """Return what stands for an input, which need not be a value of the graph."""
        if index >= self.count:
            raise ModelError(f"node {self.name}: {self.op} has only {self.count} inputs")
        return _found(self._values, self.operation.inputs[index])

    def value(self, index: int) -> str:
        """Return the name of an input."""
        value = self.raw(index)
        if isinstance(value, EmptyList):
            raise self.unsupported("a tensor list whose elements' rank nothing tells")
        if isinstance(value, Complex):
            raise self.unsupported("a complex input")
        if isinstance(value, Missing):
            raise UnsupportedError(
                f"node {self.name}: {self.op} reads what is not there: {value.why}"
            )
        return value

    def values(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return the names of inputs."""
        return [self.value(index) for index in range(self.count)[start:stop]]

    def fact(self, index: int) -> Fact | None:
        """Return what is known of an input."""
        return self.building.facts.get(self.value(index))

    def rank(self, index: int) -> int:
        """Return the rank of an input; raise UnsupportedError if it is unknown."""
        return self.rank_of(self.value(index))

    def rank_of(self, value: str) -> int:
        """Return the rank of a value; raise UnsupportedError if it is unknown."""
        fact = self.building.facts.get(value)
        if fact is None:
            raise self.unsupported(f"an input of unknown rank, {value},")
        return len(fact.shape)

    def shape(self, index: int) -> tuple[int | None, ...] | None:
        """Return the dims of an input, None for those that are not known."""
        fact = self.fact(index)
        return None if fact is None else fact.shape

    def known(self, index: int) -> Array | None:
        """Return the value of an input if it is constant."""
        return self.known_value(self.value(index))

    def known_value(self, value: str) -> Array | None:
        """Return the array of a value if it is constant."""
        return self.building.constants.get(value)

    def array(self, index: int) -> Array:
        """Return the value of an input that must be constant."""
        value = self.known(index)
        if value is None:
            raise self.unsupported(f"input {index}, computed where a constant is expected,")
        return value

    def integers(self, index: int) -> tuple[int, ...]:
        """Return an input that must be constant, of integers."""
        value = self.array(index)
        if value.dtype.kind not in "iu":
            raise ModelError(
                f"node {self.name}: {self.op}: expected integers at input {index}, "
                f"got {Type.of(value)}"
            )
        return tuple(map(int, value.reshape(-1)))

    # Attributes

    def has(self, name: str) -> bool:
        """Return whether the node has the attribute."""
        return name in self.attrs

    def integer(self, name: str, default: int = 0) -> int:
        """Return an attribute that is an integer."""
        return int(self.attrs[name].i) if name in self.attrs else default

    def real(self, name: str, default: float = 0.0) -> float:
        """Return an attribute that is a float."""
        return float(self.attrs[name].f) if name in self.attrs else default

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an attribute that is a bool."""
        return bool(self.attrs[name].b) if name in self.attrs else default

    def text(self, name: str, default: str = "") -> str:
        """Return an attribute that is a string."""
        if name not in self.attrs:
            return default
        return str(self.attrs[name].s.decode("utf-8", "replace"))

    def list(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is a list of integers; () if it is missing."""
        return tuple(map(int, self.attrs[name].list.i)) if name in self.attrs else ()

    def dtype(self, name: str = "T", default: str = "float32") -> str:
        """Return an attribute that is a dtype."""
        if name not in self.attrs:
            return default
        found = dtype_name(self.attrs[name].type)
        try:
            numpy_dtype(found)
        except ModelError:
            raise self.unsupported(f"dtype {found}") from None
        return found

    # Outputs

    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Add a node with one output and return the output's name."""
        return self.building.emit(op, inputs, attrs, self.name)[0]

    def emit_many(self, op: str, count: int, *inputs: str, **attrs: Attr) -> tuple[str, ...]:
        """Add a node with `count` outputs and return their names."""
        return self.building.emit(op, inputs, attrs, self.name, count)

    def constant(self, value: Any, dtype: str) -> str:
        """Add a constant and return its name."""
        return self.building.constant(np.array(value, numpy_dtype(dtype)), f"{self.name}/constant")

    def int64(self, *numbers: int) -> str:
        """Add a constant int64[n] and return its name."""
        return self.constant(numbers, "int64")

    def as_int64(self, value: str) -> str:
        """Return the value as int64."""
        fact = self.building.facts.get(value)
        if fact is not None and fact.types[0].dtype == "int64":
            return value
        return self.emit("cast", value, to="int64")

    def as_vector(self, value: str) -> str:
        """Return numbers of any shape as int64[n]."""
        value = self.as_int64(value)
        fact = self.building.facts.get(value)
        if fact is not None and len(fact.shape) == 1:
            return value
        return self.emit("reshape", value, self.int64(-1))

    def transposed(self, value: str, perm: tuple[int, ...]) -> str:
        """Return a value with its axes in another order; a constant is transposed at once."""
        if perm == tuple(range(len(perm))):
            return value
        array = self.known_value(value)
        if array is None or array.ndim != len(perm):
            return self.emit("transpose", value, perm=perm)
        turned = self.derived(array, f"{perm}", lambda x: np.ascontiguousarray(x.transpose(perm)))
        return self.building.constant(turned, f"{value}/transposed")

    def derived(self, array: Array, key: str, make: Callable[[Array], Array]) -> Array:
        """Return what `make` makes of a constant's array, made once for each `key`."""
        known = self.building.derived.get((id(array), key))
        if known is None:
            known = self.building.derived[id(array), key] = array, make(array)
        return known[1]

    def finish(self, *values: Value) -> None:
        """Let these stand for the node's outputs, from the first on."""
        for number, value in enumerate(values):
            self._values[self.name, number] = value

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error that says what of this node has no rule."""
        return UnsupportedError(f"node {self.name}: {self.op}: {what} is not supported")
