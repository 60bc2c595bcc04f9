"""The graph under construction: rules read tensors by number and write nodes with `emit`.

TFLite is NHWC. Operators whose meaning depends on the layout become transpose -> NCHW op ->
transpose back, weights are transposed at once, everything else works on the axes as they are; the
passes cancel the transposes.

Quantized tensors keep their integers; `value` gives the real numbers after a dequantize_linear,
`finish` rounds the result with a quantize_linear. So every operator has the meaning of its float
twin, and its result lies on the grid that the file states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from palmkit.engine.converters.damage import DAMAGE, reason
from palmkit.engine.converters.tflite.dilation import dilated_tensors
from palmkit.engine.converters.tflite.file import File, Operator, Quantization, Subgraph
from palmkit.engine.converters.tflite.refusals import Refusals
from palmkit.engine.converters.tflite.states import State
from palmkit.engine.converters.tflite.writer import Writer, activate
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import (
    ANY_RANK,
    MOST_NESTED,
    Array,
    Attr,
    Graph,
    Known,
    Node,
    Type,
    numpy_dtype,
)

_MOST_BODIES = 256

# Operators that LiteRT runs on the stored integers, and the input that these come from.
_COPIES = {
    **dict.fromkeys((
        "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BROADCAST_TO", "TRANSPOSE", "UNPACK", "SPLIT_V",
        "SLICE", "STRIDED_SLICE", "PAD", "MIRROR_PAD", "REVERSE_V2", "REVERSE_SEQUENCE", "TILE",
        "GATHER", "GATHER_ND", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "SPACE_TO_BATCH_ND",
        "BATCH_TO_SPACE_ND", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR", "AVERAGE_POOL_2D",
        "MAX_POOL_2D", "MAXIMUM", "MINIMUM", "TOPK_V2",
    ), 0),
    "SPLIT": 1,
    "SELECT": 1,
    "SELECT_V2": 1,
}  # fmt: skip


class Builder(Writer):
    """Turns one graph of the file into nodes."""

    def __init__(
        self, file: File, graph: Subgraph, refusals: Refusals, callers: tuple[int, ...] = ()
    ) -> None:
        """Prepare to convert a graph of the file.

        callers: the numbers of the graphs that call this one, itself the last.
        """
        super().__init__()
        self.file = file
        self.graph = graph
        self.refusals = refusals
        self.callers = callers
        self.known = {i: t.data for i, t in enumerate(graph.tensors) if t.data is not None}
        self.dilated = dilated_tensors(graph)
        self.complex: dict[int, str] = {}
        self.states: dict[str, State] = {}
        self._written: set[int] = set()
        self._tensor_names: dict[int, str] = {}
        for index in (*graph.inputs, *graph.outputs):
            self.name(index)

    def name(self, index: int) -> str:
        """Return the name of a tensor's value."""
        if index not in self._tensor_names:
            stem = self.graph.tensors[index].name or f"tensor_{index}"
            self._tensor_names[index] = self.names.fresh(stem)
        return self._tensor_names[index]

    def begin(self, inputs: Sequence[Type]) -> None:
        """Declare the graph's inputs."""
        for index, type in zip(self.graph.inputs, inputs, strict=True):
            if index in self.known or index in self._written:
                raise ModelError(f"a graph input is given twice: {self.name(index)}")
            self._written.add(index)
            self.types[self.name(index)] = type

    def convert(self, rules: dict[str, Rule]) -> None:
        """Apply the rules in order; operators without one are noted and left out."""
        for operator in self.graph.operators:
            self.current = self.name(operator.outputs[0]) if operator.outputs else operator.op
            rule = rules.get(operator.op)
            if rule is None:
                kind = f"{'custom ' if operator.is_custom else ''}{operator.op}"
                self.refusals.operators.setdefault(kind, []).append(self.current)
            else:
                self._apply(rule, operator)
            for index in operator.outputs:
                if index in self._written:
                    raise ModelError(f"operator {operator.op}: writes an input: {self.name(index)}")
                self._written.add(index)

    def _apply(self, rule: Rule, operator: Operator) -> None:
        try:
            rule(self, operator)
        except UnsupportedError as error:
            self.refusals.cases.append(str(error))
        except PalmError:
            raise
        except DAMAGE as error:
            raise ModelError(
                f"node {self.current}: {operator.op}: its inputs or options do not fit: "
                f"{reason(error)}"
            ) from error

    def finished(self, inputs: dict[str, Type]) -> Graph:
        """Return the graph; output types are inferred, as files often state wrong ones."""
        outputs: dict[str, Type] = {}
        depends_on_sizes = any(not type.is_static for type in inputs.values())
        for index in self.graph.outputs:
            self.value(index, real=False)
            name = self.name(index)
            if name in self.types:
                outputs[name] = Type(self.types[name].dtype, self.types[name].shape)
            elif depends_on_sizes:
                outputs[name] = self.declared_type(index)
            else:
                outputs[name] = self.open_type(index)
        metadata: dict[str, str] = {}
        for state in self.states.values():
            after = self.names.fresh(f"{state.input}/next")
            self.nodes.append(Node("identity", (state.now,), (after,), {}, after))
            inputs, outputs = {**inputs, state.input: state.type}, {**outputs, after: state.type}
            metadata[f"state {state.input}"] = state.described(after)
        return Graph(inputs, outputs, tuple(self.nodes), self.used_constants(outputs), metadata)

    def body(self, number: int, inputs: Sequence[Type]) -> Graph:
        """Convert another graph of the file to the body of a control-flow op."""
        if not 0 <= number < len(self.file.graphs):
            raise ModelError(f"node {self.current}: no graph of number {number} in the file")
        if number in self.callers:
            raise ModelError(f"node {self.current}: graph {number} calls itself")
        self.refusals.bodies += 1
        if len(self.callers) >= MOST_NESTED or self.refusals.bodies > _MOST_BODIES:
            raise ModelError(f"node {self.current}: more than {_MOST_BODIES} bodies")
        graph = self.file.graphs[number]
        if len(inputs) != len(graph.inputs):
            raise ModelError(
                f"node {self.current}: graph {number} has {len(graph.inputs)} inputs, "
                f"got {len(inputs)}"
            )
        builder = Builder(self.file, graph, self.refusals, (*self.callers, number))
        builder.begin(inputs)
        builder.convert(RULES)
        names = [builder.name(i) for i in graph.inputs]
        return builder.finished(dict(zip(names, inputs, strict=True)))

    def declared_type(self, index: int) -> Type:
        """Return the stated type; an unknown dim is named after tensor and axis."""
        tensor, name = self.graph.tensors[index], self.name(index)
        if tensor.dtype in ("", "complex64"):
            raise UnsupportedError(f"tensor {name}: its type is not supported")
        dims = (f"{name}_{axis}" if dim < 0 else dim for axis, dim in enumerate(tensor.shape))
        return Type(tensor.dtype, tuple(dims))

    def open_type(self, index: int) -> Type:
        """Return the type of a result whose sizes only a run gives; the file's are wrong."""
        tensor, name = self.graph.tensors[index], self.name(index)
        dims = tuple(f"{name}_{axis}" for axis in range(len(tensor.shape)))
        return Type(self.declared_type(index).dtype, dims or ANY_RANK)

    def dtype(self, index: int) -> str:
        """Return the dtype that `value` has: float32 for quantized tensors."""
        tensor = self.graph.tensors[index]
        return "float32" if tensor.quantization is not None else tensor.dtype

    def stored_dtype(self, index: int) -> str:
        """Return the dtype of the tensor's elements in the file."""
        return self.graph.tensors[index].dtype

    def quantization(self, index: int) -> Quantization | None:
        """Return how the tensor is quantized; None for others and for an input left out."""
        return self.graph.tensors[index].quantization if index >= 0 else None

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape if it is known, else the stated one, with -1 for open dims."""
        type = self.types.get(self._tensor_names.get(index, ""))
        if type is not None and type.has_rank:
            return tuple(dim if isinstance(dim, int) else -1 for dim in type.shape)
        return self.graph.tensors[index].shape

    def rank(self, index: int) -> int:
        """Return the number of dims."""
        return len(self.shape(index))

    def static_shape(self, index: int) -> tuple[int, ...]:
        """Return the shape, which must be known."""
        shape = self.shape(index)
        if min(shape, default=0) < 0:
            raise UnsupportedError(
                f"node {self.current}: expected a static shape, got {list(shape)}: "
                f"{self.name(index)}"
            )
        return shape

    def axis(self, axis: int, index: int, extra: int = 0) -> int:
        """Return an axis of a tensor, counted from the front; `extra` may lie past its rank."""
        rank = self.rank(index) + extra
        if not -rank <= axis < rank:
            raise ModelError(
                f"node {self.current}: axis {axis} is outside of {list(self.shape(index))}"
            )
        return axis % rank

    def value(self, index: int, real: bool = True) -> str:
        """Return the value of a tensor, "" for an input left out, adding it if it is a constant.

        real: give a quantized tensor's real numbers, else its integers.
        """
        if index < 0:
            return ""
        name = self.name(index)
        if index in self.known:
            self.enter(name, self.known[index])
        elif index not in self._written:
            tensor = self.graph.tensors[index]
            if 0 not in tensor.shape:
                raise ModelError(f"node {self.current}: reads a tensor nobody writes: {name}")
            self.enter(name, np.zeros(tensor.shape, numpy_dtype(tensor.dtype)))
        quantization = self.quantization(index)
        if quantization is None or not real:
            return name
        return self.once(
            ("real", index), lambda: self._dequantized(name, quantization, quantization.axis)
        )

    def has_value(self, index: int) -> bool:
        """Return whether the tensor can be read: it is a constant or was computed."""
        return index in self.known or index in self._written

    def dequantized(self, index: int, scale: Array) -> str:
        """Return a tensor's integers times a scale: one number, or one an index of its axis."""
        zero = np.zeros(scale.shape, self.stored_dtype(index))
        return self._dequantized(self.value(index, real=False), Quantization(scale, zero, 0), 0)

    def _dequantized(self, name: str, quantization: Quantization, axis: int) -> str:
        if quantization.zero_point.dtype == np.int64:
            return self._dequantized_int64(name, quantization, axis)
        attrs: dict[str, Attr] = {"axis": axis} if quantization.scale.ndim else {}
        scale, zero_point = self._parameters(quantization)
        return self.emit("dequantize_linear", name, scale, zero_point, **attrs)

    def _dequantized_int64(self, name: str, quantization: Quantization, axis: int) -> str:
        """Dequantize biases of 16-bit layers: dequantize_linear takes no int64."""
        rank = len(self.types[name].shape)
        dims = [-1 if each == axis else 1 for each in range(rank)]
        scale, zero_point = (
            each.reshape(dims) if each.ndim else each
            for each in (quantization.scale, quantization.zero_point)
        )
        steps = self.emit("sub", name, self.array(zero_point)) if zero_point.any() else name
        return self.emit("mul", self.emit("cast", steps, to="float32"), self.array(scale))

    def _parameters(self, quantization: Quantization) -> tuple[str, str]:
        key = (quantization.scale.tobytes(), quantization.zero_point.tobytes())
        dtype = quantization.zero_point.dtype.name
        return (
            self.once(("scale", *key), lambda: self.array(quantization.scale)),
            self.once(("zero", dtype, *key), lambda: self.array(quantization.zero_point)),
        )

    def constant(self, index: int) -> Array:
        """Return the stored value of a tensor that must be constant."""
        type = self.types.get(self._tensor_names.get(index, ""))
        if index in self.known:
            return self.known[index]
        if isinstance(type, Known):
            return type.value
        raise UnsupportedError(
            f"node {self.current}: expected a constant, got a computed tensor: "
            f"{self.name(index) if index >= 0 else 'an input left out'}"
        )

    def is_constant(self, index: int) -> bool:
        """Return whether the value is known."""
        if index in self.known:
            return True
        return isinstance(self.types.get(self._tensor_names.get(index, "")), Known)

    def numbers(self, index: int) -> tuple[int, ...]:
        """Return a constant list of integers."""
        return tuple(map(int, self.whole_numbers(index).reshape(-1)))

    def number(self, index: int) -> int:
        """Return a constant integer."""
        numbers = self.numbers(index)
        if len(numbers) != 1:
            raise ModelError(
                f"node {self.current}: expected one number, got {len(numbers)}: {self.name(index)}"
            )
        return numbers[0]

    def whole_numbers(self, index: int) -> Array:
        """Return the value of a tensor that must be constant and of integers."""
        value = self.constant(index)
        if not np.issubdtype(value.dtype, np.integer):
            raise ModelError(
                f"node {self.current}: expected integers, got {Type.of(value)}: {self.name(index)}"
            )
        return value

    def as_int64(self, index: int) -> str:
        """Return a tensor of numbers as int64."""
        if self.is_constant(index):
            return self.int64_array(self.whole_numbers(index).astype(np.int64))
        return self.emit("cast", self.value(index, real=False), to="int64")

    def as_vector(self, index: int) -> str:
        """Return a tensor of numbers as int64[n]; a scalar is one number."""
        return self.emit("reshape", self.as_int64(index), self.int64(-1))

    def as_transposed(self, index: int, perm: tuple[int, ...], factor: Array | None = None) -> str:
        """Return a tensor transposed; a constant is transposed at once.

        factor: multiplies the scale of quantized weights, one number or one along their axis.
        """
        if self.rank(index) != len(perm):
            raise ModelError(
                f"node {self.current}: expected {len(perm)} dims, got {list(self.shape(index))}: "
                f"{self.name(index)}"
            )
        if index not in self.known:
            return self.emit("transpose", self.value(index), perm=perm)
        quantization = self.quantization(index)
        if quantization is not None and factor is not None:
            scale = (quantization.scale * factor).astype(np.float32)
            quantization = replace(quantization, scale=scale)

        def stored() -> str:
            value = np.ascontiguousarray(self.known[index].transpose(perm))
            value.flags.writeable = False
            name = self.names.fresh(f"{self.name(index)}/transposed")
            self.enter(name, value)
            return name

        if quantization is None:
            return self.once(("transposed", index, perm), stored)
        return self.once(
            ("real", index, perm, quantization.scale.tobytes()),
            lambda: self._dequantized(stored(), quantization, perm.index(quantization.axis)),
        )

    def as_nchw(self, index: int) -> str:
        """Return a picture tensor, or one of volumes, in the layout of the IR's ops."""
        rank = self.rank(index)
        if rank < 3:
            raise ModelError(
                f"node {self.current}: expected a picture, got {list(self.shape(index))}"
            )
        return self.emit("transpose", self.value(index), perm=(0, rank - 1, *range(1, rank - 1)))

    def finish(
        self,
        operator: Operator,
        value: str,
        activation: int = 0,
        output: int = 0,
        levels: Quantization | None = None,
    ) -> None:
        """Let an output of the operator be `value`.

        activation: the fused one that comes before; a quantized output is rounded after it.
        levels: what it is rounded to, if the operator writes other integers than the output's.
        """
        index = operator.outputs[output]
        if activation:
            value = activate(self, value, activation)
        quantization = self.quantization(index)
        if quantization is not None:
            levels = levels or self._copied(operator, quantization) or quantization
            value = self._quantized(value, levels)
        self.finish_stored(operator, value, output)

    def _copied(self, operator: Operator, given: Quantization) -> Quantization | None:
        """Return the quantization of the input whose integers LiteRT copies, if it does."""
        place = _COPIES.get(operator.op)
        if place is None or not operator.has_input(place):
            return None
        own = self.quantization(operator.inputs[place])
        alike = own is not None and own.zero_point.dtype == given.zero_point.dtype
        return own if alike and own is not None and not own.scale.ndim else None

    def _quantized(self, value: str, quantization: Quantization) -> str:
        """Return real numbers as integers."""
        dtype = quantization.zero_point.dtype
        if dtype.name not in ("int32", "int64"):
            attrs: dict[str, Attr] = {"axis": quantization.axis} if quantization.scale.ndim else {}
            return self.emit("quantize_linear", value, *self._parameters(quantization), **attrs)
        # quantize_linear has no int32 or int64; the greatest float32 that still fits is the bound.
        if quantization.scale.ndim:
            raise UnsupportedError(f"node {self.current}: {dtype} with scales along an axis")
        limits = np.iinfo(dtype)
        most = float(np.nextafter(np.float32(limits.max), np.float32(0)))
        steps = self.emit("round", self.emit("div", value, self.array(quantization.scale)))
        zero = self.scalar(float(quantization.zero_point))
        bounds = self.scalar(float(limits.min)), self.scalar(most)
        return self.emit("cast", self.emit("clip", self.emit("add", steps, zero), *bounds),
                         to=dtype.name)  # fmt: skip

    def finish_stored(self, operator: Operator, value: str, output: int = 0) -> None:
        """Let an output be `value` unchanged: the integers of a quantized tensor."""
        name = self.name(operator.outputs[output])
        if value in self.constants:
            self.known[operator.outputs[output]] = self.constants[value]
            return
        last = self.nodes[-1] if self.nodes else None
        if last is None or value not in last.outputs or value in self.shared:
            value = self.emit("identity", value)
            last = self.nodes[-1]
        outputs = tuple(name if each == value else each for each in last.outputs)
        self.nodes[-1] = replace(last, outputs=outputs)
        if value in self.types:
            self.types[name] = self.types.pop(value)

    def finish_nchw(self, operator: Operator, value: str, activation: int = 0) -> None:
        """Let an output be `value`, a picture or volumes in NCHW."""
        rank = self.rank(operator.outputs[0])
        if value in self.types:
            rank = len(self.types[value].shape)
        perm = (0, *range(2, rank), 1)
        self.finish(operator, self.emit("transpose", value, perm=perm), activation)


Rule: TypeAlias = Callable[[Builder, Operator], None]
RULES: dict[str, Rule] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Register the decorated function for these operators."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def fused_activation(o: Operator) -> int:
    """Return the operator's fused activation."""
    return int(o.option("FusedActivationFunction", 0))
