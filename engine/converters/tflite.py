"""TFLite -> IR: one function a foreign operator, or a family of them.

TFLite is NHWC. Operators whose meaning hangs on the layout become transpose -> NCHW op ->
transpose back, weights are transposed at once, everything else works on the axes as they are; the
passes cancel the transposes. Graph inputs and outputs keep the file's names and layout.

One file, over 400 lines: it is a flat list of short rules.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np

from palmkit.engine.converters.tflite_file import File, Operator, damage_as_model_error, read
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Attr, Graph, Node, Type, check, fresh_name
from palmkit.engine.ops import infer_types

_NHWC_TO_NCHW = (0, 3, 1, 2)
_NCHW_TO_NHWC = (0, 2, 3, 1)
_TO_THE_END = int(np.iinfo(np.int64).max)
_SAME_PADDING = 0


def convert(source: str | PathLike[str] | bytes) -> Graph:
    """Read a .tflite file, or its bytes, as a graph.

    Raises OSError if the file cannot be read, ModelError for what is not a whole .tflite model,
    UnsupportedError for operators or quantized tensors that have no rule here: it lists them all.
    """
    file = read(source if isinstance(source, bytes) else Path(source).read_bytes())
    with damage_as_model_error():
        return _Converter(file).convert()


class _Converter:
    """The graph while it grows: rules read tensors by number and write nodes by `emit`."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self.known = {i: t.data for i, t in enumerate(file.tensors) if t.data is not None}
        self.transposed: dict[tuple[int, tuple[int, ...]], str] = {}
        self.dilated = _dilated_tensors(file)
        self.taken: set[str] = set()
        self.names: dict[int, str] = {}
        self.current = ""
        for i in (*file.inputs, *file.outputs, *range(len(file.tensors))):
            if i not in self.names:
                self.names[i] = fresh_name(self.taken, file.tensors[i].name or f"tensor_{i}")

    def convert(self) -> Graph:
        """Apply the rules; the outputs' types are the inferred ones, files often lie about them."""
        _refuse_unsupported(self.file)
        for operator in self.file.operators:
            self.current = self.names[operator.outputs[0]]
            RULES[operator.op](self, operator)
        inputs = {self.names[i]: self.declared_type(i) for i in self.file.inputs}
        outputs = {self.value(i): self.declared_type(i) for i in self.file.outputs}
        graph = Graph(inputs, outputs, tuple(self.nodes), self.constants)
        check(graph)
        inferred = infer_types(graph)
        for name in outputs:
            if name in inferred:
                outputs[name] = Type(inferred[name].dtype, inferred[name].shape)
        return replace(graph, outputs=outputs)

    def declared_type(self, index: int) -> Type:
        """The type that the file states; an unknown dim is named after tensor and axis."""
        tensor, name = self.file.tensors[index], self.names[index]
        dims = (f"{name}_{axis}" if dim < 0 else dim for axis, dim in enumerate(tensor.shape))
        return Type(tensor.dtype, tuple(dims))

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape that the file states."""
        return self.file.tensors[index].shape

    def rank(self, index: int) -> int:
        """The number of dims that the file states."""
        return len(self.file.tensors[index].shape)

    def value(self, index: int) -> str:
        """The value name of a tensor; a constant enters the graph here."""
        if index < 0:
            return ""
        name = self.names[index]
        if index in self.known:
            self.constants[name] = self.known[index]
        return name

    def constant(self, index: int) -> Array:
        """The value of a tensor that must be constant."""
        if index not in self.known:
            raise UnsupportedError(
                f"node {self.current}: expected a constant, got a computed tensor: "
                f"{self.names[index]}"
            )
        return self.known[index]

    def numbers(self, index: int) -> tuple[int, ...]:
        """A constant list of numbers."""
        return tuple(map(int, self.whole_numbers(index).reshape(-1)))

    def whole_numbers(self, index: int) -> Array:
        """The value of a tensor that must be constant and of integers."""
        value = self.constant(index)
        if not np.issubdtype(value.dtype, np.integer):
            raise ModelError(
                f"node {self.current}: expected integers, got {Type.of(value)}: {self.names[index]}"
            )
        return value

    def array(self, value: Array) -> str:
        """A new constant."""
        name = fresh_name(self.taken, f"{self.current}/constant")
        value.flags.writeable = False
        self.constants[name] = value
        return name

    def int64(self, *numbers: int) -> str:
        """A new constant, int64[n]."""
        return self.array(np.array(numbers, np.int64))

    def scalar(self, number: float) -> str:
        """A new constant, float32[]."""
        return self.array(np.array(number, np.float32))

    def as_int64(self, index: int) -> str:
        """A tensor of numbers, as int64."""
        if index in self.known:
            return self.array(self.whole_numbers(index).astype(np.int64))
        return self.emit("cast", self.value(index), to="int64")

    def as_transposed(self, index: int, perm: tuple[int, ...]) -> str:
        """A tensor transposed: at once if it is constant."""
        if index not in self.known:
            return self.emit("transpose", self.value(index), perm=perm)
        if (index, perm) not in self.transposed:
            value = np.ascontiguousarray(self.known[index].transpose(perm))
            value.flags.writeable = False
            name = fresh_name(self.taken, f"{self.names[index]}/transposed")
            self.constants[name] = value
            self.transposed[index, perm] = name
        return self.transposed[index, perm]

    def as_nchw(self, index: int) -> str:
        """A picture tensor in the layout of the IR's ops."""
        return self.emit("transpose", self.value(index), perm=_NHWC_TO_NCHW)

    def emit(self, op: str, *inputs: str, **attrs: Attr) -> str:
        """Add a node with one output, whose name is returned."""
        output = fresh_name(self.taken, f"{self.current}/{op}")
        self.nodes.append(Node(op, inputs, (output,), attrs, self.current))
        return output

    def emit_outputs(self, op: str, operator: Operator, *inputs: str, **attrs: Attr) -> None:
        """Add a node that writes all outputs of the operator."""
        outputs = tuple(self.names[i] for i in operator.outputs)
        self.nodes.append(Node(op, inputs, outputs, attrs, self.current))

    def finish(self, operator: Operator, value: str, activation: int = 0) -> None:
        """Let the operator's output be `value`, behind the fused activation if there is one."""
        if activation:
            value = _activate(self, value, activation)
        last = self.nodes[-1] if self.nodes else None
        if last is None or last.outputs != (value,):
            self.emit("identity", value)
            last = self.nodes[-1]
        self.nodes[-1] = replace(last, outputs=(self.names[operator.outputs[0]],))

    def finish_nchw(self, operator: Operator, value: str, activation: int = 0) -> None:
        """The same for a picture that an IR op made."""
        self.finish(operator, self.emit("transpose", value, perm=_NCHW_TO_NHWC), activation)


Rule: TypeAlias = Callable[[_Converter, Operator], None]
RULES: dict[str, Rule] = {}


def _rule(*operators: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def _refuse_unsupported(file: File) -> None:
    """UnsupportedError that lists every operator without a rule and the quantized tensors."""
    unknown: dict[str, list[str]] = {}
    for operator in file.operators:
        if operator.op not in RULES:
            kind = f"{'custom ' if operator.is_custom else ''}{operator.op}"
            unknown.setdefault(kind, []).append(file.tensors[operator.outputs[0]].name)
    if unknown:
        listed = "; ".join(f"{op} ({', '.join(names)})" for op, names in sorted(unknown.items()))
        raise UnsupportedError(f"no rule for these .tflite operators (outputs): {listed}")
    quantized = [tensor for tensor in file.tensors if tensor.is_quantized]
    if quantized:
        raise UnsupportedError(
            f"quantized .tflite models are not supported: {len(quantized)} quantized tensors, "
            f"first: {quantized[0].name} ({quantized[0].dtype})"
        )


def _dilated_tensors(file: File) -> dict[int, tuple[int, int]]:
    """Tensors between space_to_batch and batch_to_space that only serve a dilated convolution.

    TFLite's exporters write a dilated convolution as space_to_batch -> convolution without
    padding -> batch_to_space. Returned are the two tensors between, with the dilation; their rules
    then leave the picture whole.
    """
    readers: dict[int, list[Operator]] = {}
    for operator in file.operators:
        for index in operator.inputs:
            readers.setdefault(index, []).append(operator)
    dilated: dict[int, tuple[int, int]] = {}
    for first in file.operators:
        if first.op != "SPACE_TO_BATCH_ND" or len(readers.get(first.outputs[0], ())) != 1:
            continue
        middle = readers[first.outputs[0]][0]
        if middle.op not in ("CONV_2D", "DEPTHWISE_CONV_2D") or _geometry(middle) != (1, 1, 1, 1):
            continue
        if middle.option("Padding", 0) == _SAME_PADDING:
            continue
        (last, *others) = readers.get(middle.outputs[0], [None])
        if last is None or others or last.op != "BATCH_TO_SPACE_ND":
            continue
        blocks = [file.tensors[operator.inputs[1]].data for operator in (first, last)]
        inner = {first.outputs[0], middle.outputs[0]}
        if blocks[0] is None or blocks[1] is None or inner & {*file.outputs}:
            continue
        if blocks[0].size == 2 and np.array_equal(blocks[0], blocks[1]):
            block = (int(blocks[0][0]), int(blocks[0][1]))
            dilated.update(dict.fromkeys(inner, block))
    return dilated


def _geometry(operator: Operator) -> tuple[int, int, int, int]:
    return (
        operator.option("StrideH", 1),
        operator.option("StrideW", 1),
        operator.option("DilationHFactor", 1),
        operator.option("DilationWFactor", 1),
    )


def _activate(c: _Converter, value: str, activation: int) -> str:
    if activation == 1:
        return c.emit("relu", value)
    if activation == 2:
        return c.emit("clip", value, c.scalar(-1), c.scalar(1))
    if activation == 3:
        return c.emit("clip", value, c.scalar(0), c.scalar(6))
    if activation == 4:
        return c.emit("tanh", value)
    raise UnsupportedError(f"node {c.current}: no fused activation of number {activation}")


def _fused_activation(o: Operator) -> int:
    return int(o.option("FusedActivationFunction", 0))


def _padding(o: Operator) -> dict[str, Attr]:
    return {"auto_pad": "SAME_UPPER"} if o.option("Padding", 0) == _SAME_PADDING else {}


@_rule("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(c: _Converter, o: Operator) -> None:
    stride_h, stride_w, dilation_h, dilation_w = _geometry(o)
    block_h, block_w = c.dilated.get(o.inputs[0], (1, 1))
    weight_shape = c.shape(o.inputs[1])
    if o.op == "CONV_2D":
        weight = c.as_transposed(o.inputs[1], (0, 3, 1, 2))
        group = max(1, c.shape(o.inputs[0])[3] // weight_shape[3])
    else:
        weight = c.as_transposed(o.inputs[1], (3, 0, 1, 2))
        group = weight_shape[3] // o.option("DepthMultiplier", 1)
    inputs = [c.as_nchw(o.inputs[0]), weight]
    if len(o.inputs) > 2 and o.inputs[2] >= 0:
        inputs.append(c.value(o.inputs[2]))
    y = c.emit(
        "conv",
        *inputs,
        strides=(stride_h, stride_w),
        dilations=(dilation_h * block_h, dilation_w * block_w),
        group=group,
        **_padding(o),
    )
    c.finish_nchw(o, y, _fused_activation(o))


@_rule("TRANSPOSE_CONV")
def _transpose_conv(c: _Converter, o: Operator) -> None:
    strides = (int(o.option("StrideH", 1)), int(o.option("StrideW", 1)))
    _, kernel_h, kernel_w, _ = c.shape(o.inputs[1])
    padding: dict[str, Attr] = {
        "output_padding": (max(strides[0] - kernel_h, 0), max(strides[1] - kernel_w, 0))
    }
    if o.option("Padding", 0) == _SAME_PADDING:
        _, height, width, _ = c.numbers(o.inputs[0])
        padding |= {"auto_pad": "SAME_UPPER", "output_shape": (height, width)}
    inputs = [c.as_nchw(o.inputs[2]), c.as_transposed(o.inputs[1], (3, 0, 1, 2))]
    if len(o.inputs) > 3 and o.inputs[3] >= 0:
        inputs.append(c.value(o.inputs[3]))
    y = c.emit("conv_transpose", *inputs, strides=strides, **padding)
    c.finish_nchw(o, y, _fused_activation(o))


@_rule("Convolution2DTransposeBias")
def _mediapipe_transpose_conv(c: _Converter, o: Operator) -> None:
    """MediaPipe's custom operator; its options are three int32: padding, stride width, height.

    The total padding is MediaPipe's own rule (mediapipe/util/tflite/operations/
    transpose_conv_bias.cc), with 1 for the same padding, 2 for none.
    """
    if len(o.custom_options) < 12:
        raise ModelError(f"node {c.current}: custom options: expected 12 bytes")
    padding, stride_w, stride_h = struct.unpack_from("<3i", o.custom_options)
    _, height, width, _ = c.shape(o.inputs[0])
    _, kernel_h, kernel_w, _ = c.shape(o.inputs[1])
    total_h = total_w = 0
    if padding == 1:
        if height < 0 or width < 0:
            raise UnsupportedError(f"node {c.current}: expected a static shape, got {o.op}")
        total_h = max(0, kernel_h - (height - 1) % stride_h - 1)
        total_w = max(0, kernel_w - (width - 1) % stride_w - 1)
    top, left = total_h // 2, total_w // 2
    y = c.emit(
        "conv_transpose",
        c.as_nchw(o.inputs[0]),
        c.as_transposed(o.inputs[1], (3, 0, 1, 2)),
        c.value(o.inputs[2]),
        strides=(stride_h, stride_w),
        pads=(top, left, total_h - top, total_w - left),
    )
    c.finish_nchw(o, y)


@_rule("MAX_POOL_2D", "AVERAGE_POOL_2D")
def _pool(c: _Converter, o: Operator) -> None:
    y = c.emit(
        "max_pool" if o.op == "MAX_POOL_2D" else "average_pool",
        c.as_nchw(o.inputs[0]),
        kernel_shape=(o.option("FilterHeight", 1), o.option("FilterWidth", 1)),
        strides=(o.option("StrideH", 1), o.option("StrideW", 1)),
        **_padding(o),
    )
    c.finish_nchw(o, y, _fused_activation(o))


@_rule("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(c: _Converter, o: Operator) -> None:
    """TFLite rounds a half up and cuts off below, hence the nearest modes."""
    align_corners, half_pixel = o.option("AlignCorners", False), o.option("HalfPixelCenters", False)
    if align_corners and half_pixel:
        raise ModelError(f"node {c.current}: both align_corners and half_pixel_centers")
    coordinates = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    attrs: dict[str, Attr] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    if o.op == "RESIZE_NEAREST_NEIGHBOR":
        attrs["mode"] = "nearest"
        attrs["nearest_mode"] = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    sizes = c.as_int64(o.inputs[1])
    y = c.emit("resize", c.as_nchw(o.inputs[0]), "", "", sizes, axes=(2, 3), **attrs)
    c.finish_nchw(o, y)


@_rule("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _depth_to_space(c: _Converter, o: Operator) -> None:
    attrs: dict[str, Attr] = {"blocksize": o.option("BlockSize", 1)}
    if o.op == "DEPTH_TO_SPACE":
        attrs["mode"] = "DCR"
    c.finish_nchw(o, c.emit(o.op.lower(), c.as_nchw(o.inputs[0]), **attrs))


def _dims(c: _Converter, value: str, rank: int) -> list[str]:
    """The dims of a value, each int64[1]."""
    shape = c.emit("shape", value)
    return [
        c.emit("slice", shape, c.int64(axis), c.int64(axis + 1), c.int64(0), c.int64(1))
        for axis in range(rank)
    ]


def _pads(c: _Converter, index: int) -> str:
    """TFLite's paddings[rank, 2] as ONNX's: all begins, then all ends."""
    if index in c.known:
        return c.array(c.whole_numbers(index).T.astype(np.int64).reshape(-1))
    return c.emit("reshape", c.emit("transpose", c.as_int64(index), perm=(1, 0)), c.int64(-1))


@_rule("SPACE_TO_BATCH_ND")
def _space_to_batch(c: _Converter, o: Operator) -> None:
    if c.rank(o.inputs[0]) != 4:
        raise UnsupportedError(f"node {c.current}: {o.op}: expected 4 dims")
    top, bottom, left, right = c.numbers(o.inputs[2])
    x = c.emit("pad", c.value(o.inputs[0]), c.int64(0, top, left, 0, 0, bottom, right, 0))
    if o.outputs[0] not in c.dilated:
        block_h, block_w = map(c.int64, c.numbers(o.inputs[1]))
        n, h, w, depth = _dims(c, x, 4)
        h, w = c.emit("div", h, block_h), c.emit("div", w, block_w)
        split = c.emit("concat", n, h, block_h, w, block_w, depth, axis=0)
        x = c.emit("transpose", c.emit("reshape", x, split), perm=(2, 4, 0, 1, 3, 5))
        n = c.emit("mul", c.emit("mul", n, block_h), block_w)
        x = c.emit("reshape", x, c.emit("concat", n, h, w, depth, axis=0))
    c.finish(o, x)


@_rule("BATCH_TO_SPACE_ND")
def _batch_to_space(c: _Converter, o: Operator) -> None:
    if c.rank(o.inputs[0]) != 4:
        raise UnsupportedError(f"node {c.current}: {o.op}: expected 4 dims")
    top, bottom, left, right = c.numbers(o.inputs[2])
    x = c.value(o.inputs[0])
    if o.inputs[0] not in c.dilated:
        block_h, block_w = map(c.int64, c.numbers(o.inputs[1]))
        n, h, w, depth = _dims(c, x, 4)
        n = c.emit("div", c.emit("div", n, block_h), block_w)
        split = c.emit("concat", block_h, block_w, n, h, w, depth, axis=0)
        x = c.emit("transpose", c.emit("reshape", x, split), perm=(2, 3, 0, 4, 1, 5))
        h, w = c.emit("mul", h, block_h), c.emit("mul", w, block_w)
        x = c.emit("reshape", x, c.emit("concat", n, h, w, depth, axis=0))
    ends = c.int64(-bottom or _TO_THE_END, -right or _TO_THE_END)
    c.finish(o, c.emit("slice", x, c.int64(top, left), ends, c.int64(1, 2), c.int64(1, 1)))


@_rule("FULLY_CONNECTED")
def _fully_connected(c: _Converter, o: Operator) -> None:
    if o.option("WeightsFormat", 0):
        raise UnsupportedError(f"node {c.current}: {o.op}: shuffled weights")
    x, weight = c.value(o.inputs[0]), o.inputs[1]
    bias = [c.value(i) for i in o.inputs[2:3] if i >= 0]
    if o.option("KeepNumDims", False) and c.rank(o.inputs[0]) != 2:
        y = c.emit("matmul", x, c.as_transposed(weight, (1, 0)))
        y = c.emit("add", y, *bias) if bias else y
    else:
        x = c.emit("reshape", x, c.int64(-1, c.shape(weight)[1]))
        y = c.emit("gemm", x, c.value(weight), *bias, transB=1)
    c.finish(o, y, _fused_activation(o))


@_rule("BATCH_MATMUL")
def _batch_matmul(c: _Converter, o: Operator) -> None:
    factors: list[str] = []
    for index, option in zip(o.inputs, ("AdjX", "AdjY"), strict=True):
        axes = tuple(range(c.rank(index)))
        perm = (*axes[:-2], axes[-1], axes[-2])
        factors.append(c.as_transposed(index, perm) if o.option(option, False) else c.value(index))
    c.finish(o, c.emit("matmul", *factors))


_BINARY = {
    "ADD": "add",
    "SUB": "sub",
    "MUL": "mul",
    "DIV": "div",
    "MAXIMUM": "max",
    "MINIMUM": "min",
    "POW": "pow",
    "PRELU": "prelu",
}


@_rule(*_BINARY)
def _binary(c: _Converter, o: Operator) -> None:
    y = c.emit(_BINARY[o.op], c.value(o.inputs[0]), c.value(o.inputs[1]))
    has_activation = o.op in ("ADD", "SUB", "MUL", "DIV")
    c.finish(o, y, _fused_activation(o) if has_activation else 0)


_UNARY = {
    "RELU": "relu",
    "LOGISTIC": "sigmoid",
    "TANH": "tanh",
    "HARD_SWISH": "hard_swish",
    "ELU": "elu",
    "EXP": "exp",
    "LOG": "log",
    "SQRT": "sqrt",
    "NEG": "neg",
    "ABS": "abs",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND": "round",
}


@_rule(*_UNARY)
def _unary(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit(_UNARY[o.op], c.value(o.inputs[0])))


_CLIPS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


@_rule(*_CLIPS)
def _clip(c: _Converter, o: Operator) -> None:
    low, high = map(c.scalar, _CLIPS[o.op])
    c.finish(o, c.emit("clip", c.value(o.inputs[0]), low, high))


@_rule("LEAKY_RELU")
def _leaky_relu(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("leaky_relu", c.value(o.inputs[0]), alpha=float(o.option("Alpha", 0.0))))


@_rule("RSQRT")
def _rsqrt(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("reciprocal", c.emit("sqrt", c.value(o.inputs[0]))))


@_rule("SQUARE")
def _square(c: _Converter, o: Operator) -> None:
    x = c.value(o.inputs[0])
    c.finish(o, c.emit("mul", x, x))


@_rule("SQUARED_DIFFERENCE")
def _squared_difference(c: _Converter, o: Operator) -> None:
    difference = c.emit("sub", c.value(o.inputs[0]), c.value(o.inputs[1]))
    c.finish(o, c.emit("mul", difference, difference))


@_rule("L2_NORMALIZATION")
def _l2_normalization(c: _Converter, o: Operator) -> None:
    x = c.value(o.inputs[0])
    squares = c.emit("reduce_sum", c.emit("mul", x, x), c.int64(-1), keepdims=1)
    norm = c.emit("sqrt", c.emit("max", squares, c.scalar(1e-6)))
    c.finish(o, c.emit("div", x, norm), _fused_activation(o))


@_rule("SOFTMAX")
def _softmax(c: _Converter, o: Operator) -> None:
    x, beta = c.value(o.inputs[0]), o.option("Beta", 1.0)
    if beta != 1:
        x = c.emit("mul", x, c.scalar(beta))
    c.finish(o, c.emit("softmax", x, axis=-1))


_REDUCTIONS = {
    "MEAN": "reduce_mean",
    "SUM": "reduce_sum",
    "REDUCE_MAX": "reduce_max",
    "REDUCE_MIN": "reduce_min",
    "REDUCE_PROD": "reduce_prod",
}


@_rule(*_REDUCTIONS)
def _reduce(c: _Converter, o: Operator) -> None:
    axes = c.int64(*c.numbers(o.inputs[1]))
    keepdims = int(o.option("KeepDims", False))
    c.finish(o, c.emit(_REDUCTIONS[o.op], c.value(o.inputs[0]), axes, keepdims=keepdims))


@_rule("ARG_MAX")
def _arg_max(c: _Converter, o: Operator) -> None:
    (axis,) = c.numbers(o.inputs[1])
    y = c.emit("arg_max", c.value(o.inputs[0]), axis=axis, keepdims=0)
    c.finish(o, _to_declared_dtype(c, y, o))


def _to_declared_dtype(c: _Converter, value: str, o: Operator) -> str:
    """An int64 value in the dtype that the operator's output has in the file."""
    dtype = c.file.tensors[o.outputs[0]].dtype
    return value if dtype == "int64" else c.emit("cast", value, to=dtype)


@_rule("CAST")
def _cast(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("cast", c.value(o.inputs[0]), to=c.file.tensors[o.outputs[0]].dtype))


@_rule("DEQUANTIZE", "DENSIFY")
def _decode(c: _Converter, o: Operator) -> None:
    """float16 weights, perhaps sparse ones: constants in float32, at once."""
    dtype = c.file.tensors[o.outputs[0]].dtype
    if o.inputs[0] in c.known:
        c.known[o.outputs[0]] = c.known[o.inputs[0]].astype(dtype, copy=False)
        c.known[o.outputs[0]].flags.writeable = False
    else:
        c.finish(o, c.emit("cast", c.value(o.inputs[0]), to=dtype))


@_rule("SHAPE")
def _shape(c: _Converter, o: Operator) -> None:
    c.finish(o, _to_declared_dtype(c, c.emit("shape", c.value(o.inputs[0])), o))


@_rule("RESHAPE")
def _reshape(c: _Converter, o: Operator) -> None:
    x, *given = o.inputs
    if given:
        shape = c.as_int64(given[0])
        dims = c.numbers(given[0]) if given[0] in c.known else ()
    else:
        dims = o.options("NewShape")
        shape = c.int64(*dims)
    attrs: dict[str, Attr] = {"allowzero": 1} if 0 in dims else {}
    c.finish(o, c.emit("reshape", c.value(x), shape, **attrs))


@_rule("SQUEEZE")
def _squeeze(c: _Converter, o: Operator) -> None:
    axes = o.options("SqueezeDims")
    c.finish(o, c.emit("squeeze", c.value(o.inputs[0]), *([c.int64(*axes)] if axes else [])))


@_rule("EXPAND_DIMS")
def _expand_dims(c: _Converter, o: Operator) -> None:
    axes = c.int64(*c.numbers(o.inputs[1]))
    c.finish(o, c.emit("unsqueeze", c.value(o.inputs[0]), axes))


@_rule("TRANSPOSE")
def _transpose(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("transpose", c.value(o.inputs[0]), perm=c.numbers(o.inputs[1])))


@_rule("CONCATENATION")
def _concatenation(c: _Converter, o: Operator) -> None:
    y = c.emit("concat", *map(c.value, o.inputs), axis=o.option("Axis", 0))
    c.finish(o, y, _fused_activation(o))


@_rule("PACK")
def _pack(c: _Converter, o: Operator) -> None:
    axis = o.option("Axis", 0)
    axes = c.int64(axis)
    parts = [c.emit("unsqueeze", c.value(index), axes) for index in o.inputs]
    c.finish(o, c.emit("concat", *parts, axis=axis))


@_rule("UNPACK")
def _unpack(c: _Converter, o: Operator) -> None:
    axis = o.option("Axis", 0)
    axes = c.int64(axis)
    parts = tuple(fresh_name(c.taken, f"{c.current}/split") for _ in o.outputs)
    attrs: dict[str, Attr] = {"axis": axis, "num_outputs": len(parts)}
    c.nodes.append(Node("split", (c.value(o.inputs[0]), ""), parts, attrs, c.current))
    for part, index in zip(parts, o.outputs, strict=True):
        c.nodes.append(Node("squeeze", (part, axes), (c.names[index],), {}, c.current))


@_rule("SPLIT")
def _split(c: _Converter, o: Operator) -> None:
    (axis,) = c.numbers(o.inputs[0])
    c.emit_outputs("split", o, c.value(o.inputs[1]), "", axis=axis, num_outputs=len(o.outputs))


@_rule("SPLIT_V")
def _split_v(c: _Converter, o: Operator) -> None:
    (axis,) = c.numbers(o.inputs[2])
    sizes = c.numbers(o.inputs[1])
    if -1 in sizes:
        total = c.shape(o.inputs[0])[axis]
        if total < 0:
            raise UnsupportedError(f"node {c.current}: {o.op}: a size of -1 of an unknown dim")
        sizes = tuple(total - sum(sizes) - 1 if size == -1 else size for size in sizes)
    c.emit_outputs("split", o, c.value(o.inputs[0]), c.int64(*sizes), axis=axis)


@_rule("SLICE")
def _slice(c: _Converter, o: Operator) -> None:
    starts, sizes = c.numbers(o.inputs[1]), c.numbers(o.inputs[2])
    ends = (
        _TO_THE_END if size < 0 else start + size for start, size in zip(starts, sizes, strict=True)
    )
    axes, steps = c.int64(*range(len(starts))), c.int64(*[1] * len(starts))
    x = c.value(o.inputs[0])
    c.finish(o, c.emit("slice", x, c.int64(*starts), c.int64(*ends), axes, steps))


@_rule("STRIDED_SLICE")
def _strided_slice(c: _Converter, o: Operator) -> None:
    """Masks are bits by place in the lists; an ellipsis stands for all axes that are left."""
    if o.option("NewAxisMask", 0):
        raise UnsupportedError(f"node {c.current}: {o.op}: new axes")
    begins, ends, steps = (c.numbers(index) for index in o.inputs[1:4])
    slices: list[tuple[int, int, int, int]] = []
    shrunk: list[int] = []
    axis = 0
    for place, (start, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        bit = 1 << place
        if o.option("EllipsisMask", 0) & bit:
            axis = c.rank(o.inputs[0]) - (len(begins) - place - 1)
            continue
        if o.option("Offset", False):
            end += start
        if o.option("ShrinkAxisMask", 0) & bit:
            shrunk.append(axis)
            slices.append((axis, start, start + 1 or _TO_THE_END, 1))
        else:
            if o.option("BeginMask", 0) & bit:
                start = 0 if step > 0 else _TO_THE_END
            if o.option("EndMask", 0) & bit:
                end = _TO_THE_END if step > 0 else -_TO_THE_END
            slices.append((axis, start, end, step))
        axis += 1
    axes, starts, stops, strides = (c.int64(*column) for column in zip(*slices, strict=True))
    y = c.emit("slice", c.value(o.inputs[0]), starts, stops, axes, strides)
    c.finish(o, c.emit("squeeze", y, c.int64(*shrunk)) if shrunk else y)


@_rule("PAD", "PADV2")
def _pad(c: _Converter, o: Operator) -> None:
    fill = [c.value(o.inputs[2])] if o.op == "PADV2" else []
    c.finish(o, c.emit("pad", c.value(o.inputs[0]), _pads(c, o.inputs[1]), *fill))


@_rule("MIRROR_PAD")
def _mirror_pad(c: _Converter, o: Operator) -> None:
    """A symmetric mirror repeats the border itself: of width 1 it is ONNX's edge mode."""
    mode = "reflect"
    if o.option("Mode", 0) == 1:
        if max(c.numbers(o.inputs[1])) > 1:
            raise UnsupportedError(f"node {c.current}: {o.op}: symmetric and wider than 1")
        mode = "edge"
    c.finish(o, c.emit("pad", c.value(o.inputs[0]), _pads(c, o.inputs[1]), mode=mode))


@_rule("GATHER")
def _gather(c: _Converter, o: Operator) -> None:
    if o.option("BatchDims", 0):
        raise UnsupportedError(f"node {c.current}: {o.op}: batch dims")
    indices = c.value(o.inputs[1])
    c.finish(o, c.emit("gather", c.value(o.inputs[0]), indices, axis=o.option("Axis", 0)))


@_rule("TILE")
def _tile(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("tile", c.value(o.inputs[0]), c.as_int64(o.inputs[1])))


@_rule("BROADCAST_TO")
def _broadcast_to(c: _Converter, o: Operator) -> None:
    c.finish(o, c.emit("expand", c.value(o.inputs[0]), c.as_int64(o.inputs[1])))
