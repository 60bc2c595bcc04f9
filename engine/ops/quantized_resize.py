"""The op quantized_resize."""

from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.quantization import need_levels, requantized
from palmkit.engine.ops.rules import need_dtype, need_rank

WEIGHT_BITS = 11


def fixed_weights(weight: Array) -> Array:
    """Return the weights of the second of two pixels, 0..1, as int32 in steps of 2^-11."""
    return np.rint(weight.astype(np.float64) * (1 << WEIGHT_BITS)).astype(np.int32)


def _infer(
    x: Type,
    rows: Type,
    row_weight: Type,
    columns: Type,
    column_weight: Type,
    *,
    scale: float,
    x_zero_point: int,
    y_zero_point: int,
    low: int,
    high: int,
) -> Type:
    need_levels("quantized_resize", (x_zero_point, y_zero_point), low, high)
    need_dtype("quantized_resize", x, among=("uint8",))
    need_rank("quantized_resize", x, 4, 4)
    need_dtype("quantized_resize", rows, row_weight, columns, column_weight, among=("int32",))
    for pairs, weight in ((rows, row_weight), (columns, column_weight)):
        if len(weight.dims) != 1 or pairs.dims != (*weight.dims, 2):
            raise ShapeError(f"quantized_resize: places {pairs} and weights {weight} differ")
    return Type("uint8", (*x.dims[:2], rows.dims[0], columns.dims[0]))


_ROWS = np.array([[0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [2, 3], [3, 3]], np.int32)
_WEIGHT = np.array([0, 512, 1536, 512, 1536, 2048, 0], np.int32)


@op(
    _infer,
    case((2, 19, 4, 5), _ROWS, _WEIGHT, _ROWS, _WEIGHT, scale=1.0, x_zero_point=9,
         y_zero_point=9, dtype="uint8"),
    case((1, 3, 4, 9), _ROWS[:2], _WEIGHT[:2], _ROWS, _WEIGHT, scale=1.7, x_zero_point=40,
         y_zero_point=99, low=90, high=150, dtype="uint8"),
)  # fmt: skip
def quantized_resize(
    x: Array,
    rows: Array,
    row_weight: Array,
    columns: Array,
    column_weight: Array,
    *,
    scale: float,
    x_zero_point: int,
    y_zero_point: int,
    low: int = 0,
    high: int = 255,
) -> Array:
    """Pictures uint8[n, c, h, w] interpolated between their pixels.

    rows, columns: int32[out, 2], the two pixels that each output lies between; row_weight,
    column_weight: the weight of the second, in steps of 2^-11. The weighted sum of x - x_zero_point
    is exact; it becomes float32 and is multiplied by scale / 2^22, each rounded; then to the
    nearest integer, ties to even, plus y_zero_point, within low..high. scale: that of x over that
    of y.
    """
    one = 1 << WEIGHT_BITS

    def between(x: Array, pairs: Array, weight: Array, axis: int) -> Array:
        shape: Any = [-1 if each == axis else 1 for each in range(4)]
        first, second = (x.take(pairs[:, i], axis) for i in range(2))
        share = weight.reshape(shape)
        return np.asarray(first * (one - share) + second * share)

    across = between(x.astype(np.int32) - x_zero_point, columns, column_weight, 3)
    down = between(across, rows, row_weight, 2)
    factor = np.float32(scale) / np.float32(one * one)
    return requantized(down.astype(np.float32) * factor, y_zero_point, low, high)
