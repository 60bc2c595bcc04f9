"""Matrix products."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.rules.convolution import bias, multiplier_factor
from palmkit.engine.errors import UnsupportedError


@rule("FULLY_CONNECTED")
def _fully_connected(b: Builder, o: Operator) -> None:
    """Multiply x, taken as rows of the weights' length; KeepNumDims keeps its axes."""
    if o.option("WeightsFormat", 0):
        raise UnsupportedError(f"node {b.current}: {o.op}: shuffled weights")
    x, weight = b.value(o.inputs[0]), o.inputs[1]
    offset = bias(b, o, 2, o.inputs[0], weight)
    if o.option("KeepNumDims", False) and b.rank(o.inputs[0]) != 2:
        y = b.emit("matmul", x, b.as_transposed(weight, (1, 0)))
        y = b.emit("add", y, *offset) if offset else y
    else:
        x = b.emit("reshape", x, b.int64(-1, b.static_shape(weight)[1]))
        y = b.emit("gemm", x, b.value(weight), *offset, transB=1)
    b.finish(o, y, fused_activation(o))


@rule("BATCH_MATMUL")
def _batch_matmul(b: Builder, o: Operator) -> None:
    factors: list[str] = []
    for index, option in zip(o.inputs, ("AdjX", "AdjY"), strict=True):
        axes = tuple(range(b.rank(index)))
        perm = (*axes[:-2], axes[-1], axes[-2])
        factors.append(b.as_transposed(index, perm) if o.option(option, False) else b.value(index))
    integers = "int" in b.dtype(o.inputs[0]) and b.dtype(o.outputs[0]) != b.dtype(o.inputs[0])
    if integers:
        factors = [b.emit("cast", each, to=b.dtype(o.outputs[0])) for each in factors]
    y, factor = b.emit("matmul", *factors), multiplier_factor(b, o, o.inputs[0], o.inputs[1], 2)
    b.finish(o, y if factor is None else b.emit("mul", y, b.scalar(float(factor))))
