"""Helpers shared by the ops that quantize and dequantize."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type, numpy_dtype
from palmkit.engine.ops.casting import converted
from palmkit.engine.ops.rules import positive_axis

INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
NARROW_FLOATS = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float4_e2m1fn",
)
LEVELS = INTEGERS + NARROW_FLOATS
# Limit of scales in integer ops: with a larger one, or an infinite one, a float could overflow.
MOST_SCALE = 1e9


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype of `LEVELS`, or int32."""
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def narrowed(x: Array, dtype: str, saturate: int = 1) -> Array:
    """Return the floats x in a dtype of `LEVELS`, to the nearest, ties to even.

    NaN becomes the smallest integer, as in the kernels.
    saturate: numbers beyond the range become its end; otherwise, for 8-bit floats, infinity or NaN.
    """
    if dtype not in NARROW_FLOATS:
        low, high = integer_range(dtype)
        whole = np.clip(np.nan_to_num(np.rint(x), nan=low, posinf=high, neginf=low), low, high)
        return np.asarray(whole.astype(np.int32).astype(numpy_dtype(dtype)))
    if dtype == "float4_e2m1fn":
        return np.asarray(np.clip(x, -6, 6).astype(numpy_dtype(dtype)))
    return converted(x, dtype, saturate)


def requantized(x: Array, zero_point: int, low: int, high: int) -> Array:
    """Return the floats x, in steps, as uint8: to the nearest, ties to even, within low..high."""
    bounds = np.float32(low - zero_point), np.float32(high - zero_point)
    steps = np.rint(np.minimum(np.maximum(x, bounds[0]), bounds[1]))
    return np.asarray((steps + np.float32(zero_point)).astype(np.uint8))


def need_levels(op: str, zero_points: Sequence[int], low: int = 0, high: int = 255) -> None:
    """Raise ValueError unless zero points are uint8, and low and high the ends of a range."""
    if not all(0 <= zero <= 255 for zero in zero_points) or not 0 <= low <= high <= 255:
        raise ValueError(f"{op}: zero points {tuple(zero_points)}, range {low}..{high}")


def need_parameters(
    op: str, x: Type, scale: Type, zero_point: Type | None, axis: int, block_size: int
) -> None:
    """Raise unless scale and zero_point are for x: one number, one a slice of axis, or blocks."""
    if (
        zero_point is not None
        and zero_point.dims != scale.dims
        and not (_is_one(zero_point) and _is_one(scale))
    ):
        raise ShapeError(f"{op}: scale {scale} and zero point {zero_point} differ in shape")
    if block_size < 0:
        raise ValueError(f"block_size is out of range: {block_size}")
    if block_size:
        axis = positive_axis(op, axis, x)
        blocks = tuple(-(-dim // block_size) if i == axis else dim for i, dim in enumerate(x.dims))
        if scale.dims != blocks:
            raise ShapeError(f"{op}: expected a scale of {list(blocks)} for {x}, got {scale}")
    elif not _is_one(scale):
        axis = positive_axis(op, axis, x)
        if scale.dims != (x.dims[axis],):
            raise ShapeError(f"{op}: expected a scale of [{x.dims[axis]}] for {x}, got {scale}")


def _is_one(parameter: Type) -> bool:
    return parameter.elements == 1 and len(parameter.dims) < 2


def spread(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    """Return a scale or zero point as it broadcasts with x."""
    if block_size:
        return np.repeat(parameter, block_size, axis).take(range(x.shape[axis]), axis)
    if parameter.size == 1 and parameter.ndim < 2:
        return parameter.reshape(())
    return parameter.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
