"""Means and interpolation between integers of one grid, where ties are frequent.

LiteRT computes them on the stored integers. The result of two such numbers is often halfway between
two integers, and each operator has its own rounding: away from zero, up, or to even. So these rules
take the integers as they are (a dequantize_linear of scale 1) and shift the result by less than any
two results can differ, before it is rounded to even.
"""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.ir import Array

_AWAY_FROM_ZERO = 1 + 2.0**-20
_UP = 2.0**-13


def on_integers(b: Builder, o: Operator) -> bool:
    """Return whether input and output are integers of one dtype, with one scale each."""
    x, y = b.quantization(o.inputs[0]), b.quantization(o.outputs[0])
    return (
        x is not None
        and y is not None
        and not x.scale.ndim
        and not y.scale.ndim
        and x.zero_point.dtype == y.zero_point.dtype
    )


def on_one_grid(b: Builder, o: Operator) -> bool:
    """Return whether input and output are quantized alike."""
    x, y = b.quantization(o.inputs[0]), b.quantization(o.outputs[0])
    if x is None or y is None or not on_integers(b, o):
        return False
    return bool(x.scale == y.scale and x.zero_point == y.zero_point)


def steps(b: Builder, index: int) -> str:
    """Return the integers of a quantized tensor as float32."""
    x = b.value(index, real=False)
    return b.emit("dequantize_linear", x, b.scalar(1), b.scalar(0, b.stored_dtype(index)))


def rounded(b: Builder, o: Operator, y: str, ties: str = "even") -> str:
    """Return float32 steps as integers.

    ties: "away" from zero, "up" or to "even".
    """
    if ties == "away":
        y = b.emit("mul", y, b.scalar(_AWAY_FROM_ZERO))
    elif ties == "up":
        y = b.emit("add", y, b.scalar(_UP))
    zero = b.scalar(0, b.stored_dtype(o.outputs[0]))
    return b.emit("quantize_linear", y, b.scalar(1), zero)


def interpolated(b: Builder, o: Operator, x: str, align_corners: bool, half_pixel: bool) -> str:
    """Write RESIZE_BILINEAR of steps in NCHW as integers in NHWC.

    LiteRT's positions are 1024ths of a pixel. For integers of 16 bits, whose steps are fine, each
    1024th makes a difference of many steps.
    """
    before, after = b.static_shape(o.inputs[0])[1:3], b.numbers(o.inputs[1])
    rows, columns = (
        _shares(n, m, align_corners, half_pixel) for n, m in zip(before, after, strict=True)
    )
    y = b.emit("matmul", b.array(rows), b.emit("matmul", x, b.array(columns.T.copy())))
    return rounded(b, o, b.emit("transpose", y, perm=(0, 2, 3, 1)), ties="away")


def _shares(before: int, after: int, align_corners: bool, half_pixel: bool) -> Array:
    """Return the weight of each element in each resized one, float32[after, before].

    Source: tensorflow/lite/kernels/internal/reference/resize_bilinear.h, ResizeBilinearInteger.
    """
    scale = (1024 * before + after // 2) // after
    if align_corners and after > 1:
        scale = (1024 * (before - 1) + (after - 1) // 2) // (after - 1)
    places = np.arange(after, dtype=np.int64) * scale
    if half_pixel:
        places += scale // 2 - 512
    low = np.clip(places >> 10, 0, before - 1)
    high = np.clip((places + 1023) >> 10, 0, before - 1)
    share = (places - 1024 * low) / 1024
    weights, each = np.zeros((after, before), np.float32), np.arange(after)
    np.add.at(weights, (each, low), 1 - share)
    np.add.at(weights, (each, high), share)
    return weights
