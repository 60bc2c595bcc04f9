"""Pooling operators."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.rules.convolution import padding
from palmkit.engine.converters.tflite.steps import on_integers, rounded, steps
from palmkit.engine.ir import Attr


def _windows(o: Operator) -> dict[str, Attr]:
    return {
        "kernel_shape": (o.option("FilterHeight", 1), o.option("FilterWidth", 1)),
        "strides": (o.option("StrideH", 1), o.option("StrideW", 1)),
        **padding(o),
    }


@rule("MAX_POOL_2D")
def _max_pool(b: Builder, o: Operator) -> None:
    y = b.emit("max_pool", b.as_nchw(o.inputs[0]), **_windows(o))
    b.finish_nchw(o, y, fused_activation(o))


@rule("AVERAGE_POOL_2D")
def _average_pool(b: Builder, o: Operator) -> None:
    if not on_integers(b, o) or fused_activation(o):
        y = b.emit("average_pool", b.as_nchw(o.inputs[0]), **_windows(o))
        b.finish_nchw(o, y, fused_activation(o))
        return
    x = b.emit("transpose", steps(b, o.inputs[0]), perm=(0, 3, 1, 2))
    y = b.emit("transpose", b.emit("average_pool", x, **_windows(o)), perm=(0, 2, 3, 1))
    b.finish_stored(o, rounded(b, o, y, ties="away"))


@rule("L2_POOL_2D")
def _l2_pool(b: Builder, o: Operator) -> None:
    """Write the root of the mean of squares."""
    x = b.as_nchw(o.inputs[0])
    mean = b.emit("average_pool", b.emit("mul", x, x), **_windows(o))
    b.finish_nchw(o, b.emit("sqrt", mean), fused_activation(o))


@rule("LOCAL_RESPONSE_NORMALIZATION")
def _local_response_normalization(b: Builder, o: Operator) -> None:
    """Scale alpha: ONNX divides it by the number of channels that are summed."""
    size = 2 * o.option("Radius", 0) + 1
    y = b.emit(
        "lrn",
        b.as_nchw(o.inputs[0]),
        size=size,
        alpha=float(o.option("Alpha", 1.0)) * size,
        beta=float(o.option("Beta", 0.5)),
        bias=float(o.option("Bias", 1.0)),
    )
    b.finish_nchw(o, y)
