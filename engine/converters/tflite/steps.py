"""Means and interpolation between integers of one grid, where ties are frequent.

LiteRT computes them on the stored integers. Of two such numbers a half comes out often, and it has
its own way with each operator: away from zero, up, or to even. So these rules take the integers as
they are (a dequantize_linear of scale 1) and move the result by less than any other two results
can differ, before it is rounded to even.
"""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder
from palmkit.engine.converters.tflite.file import Operator

_AWAY_FROM_ZERO = 1 + 2.0**-20
_UP = 2.0**-13


def on_one_grid(b: Builder, o: Operator) -> bool:
    """Input and output are quantized alike, and nothing is fused that knows real numbers."""
    x, y = b.quantization(o.inputs[0]), b.quantization(o.outputs[0])
    return (
        x is not None
        and y is not None
        and not x.scale.ndim
        and not y.scale.ndim
        and x.scale == y.scale
        and x.zero_point == y.zero_point
        and x.zero_point.dtype == y.zero_point.dtype
    )


def steps(b: Builder, index: int) -> str:
    """The integers of a quantized tensor as float32."""
    x = b.value(index, real=False)
    return b.emit("dequantize_linear", x, b.scalar(1), b.scalar(0, b.stored_dtype(index)))


def rounded(b: Builder, o: Operator, y: str, ties: str = "even") -> str:
    """float32 steps as integers; ties: "away" from zero, "up" or to "even"."""
    if ties == "away":
        y = b.emit("mul", y, b.scalar(_AWAY_FROM_ZERO))
    elif ties == "up":
        y = b.emit("add", y, b.scalar(_UP))
    zero = b.scalar(0, b.stored_dtype(o.outputs[0]))
    return b.emit("quantize_linear", y, b.scalar(1), zero)
