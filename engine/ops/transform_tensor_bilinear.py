"""transform_tensor_bilinear: MediaPipe's custom operator TransformTensorBilinear.

Source: mediapipe/util/tflite/operations/transform_tensor_bilinear.cc.
"""

from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.rules import need_dtype, need_rank


def _cases() -> tuple[Case, ...]:
    matrix = np.array(
        [[[0.7, 0.2, 0, -0.6], [-0.3, 0.9, 0, 1.3], [0, 0, 1, 0], [0, 0, 0, 1]]], np.float32
    )
    size: dict[str, Any] = {"output_height": 6, "output_width": 9}
    return (
        case((1, 3, 7, 8), matrix, **size),
        case((1, 3, 7, 8), matrix, **size, version=1),
        case((1, 2, 5, 5), np.eye(4, dtype=np.float32)[None], output_height=5, output_width=5),
    )


def _infer(x: Type, matrix: Type, *, output_height: int, output_width: int, version: int) -> Type:
    need_dtype("transform_tensor_bilinear", x, matrix, among=("float32",))
    need_rank("transform_tensor_bilinear", x, 4, 4)
    if x.dims[0] != 1 or matrix.elements != 16 or min(output_height, output_width) < 1:
        raise ShapeError(
            f"transform_tensor_bilinear: cannot map {x} by {matrix} to "
            f"{output_height} x {output_width}"
        )
    return Type(x.dtype, (*x.dims[:2], output_height, output_width))


@op(_infer, *_cases())
def transform_tensor_bilinear(
    x: Array, matrix: Array, *, output_height: int, output_width: int, version: int = 2
) -> Array:
    """A crop of x[1, c, h, w], bilinear, with zeros outside of x.

    matrix: maps (column, row, 0, 1) of the crop to (column, row) of x; in version 1 these are
    centres of pixels, in version 2 the centre of the first pixel is at (0.5, 0.5).
    """
    rows = matrix.reshape(4, 4)[:2].astype(np.float32)
    offset: Array = rows[:, 3]
    if version == 2:
        half = np.float32(0.5)
        offset = offset + (rows[:, 0] * half + rows[:, 1] * half - half)
    down, across = np.indices((output_height, output_width), dtype=np.float32)
    right, below = (
        row[0] * across + row[1] * down + start for row, start in zip(rows, offset, strict=True)
    )
    height, width = x.shape[2:]
    inside = (right >= 0) & (right <= width - 1) & (below >= 0) & (below <= height - 1)
    right, below = (np.where(inside, each, np.float32(0)) for each in (right, below))
    column, line = np.floor(right).astype(np.int64), np.floor(below).astype(np.int64)
    to_right, to_below = right - np.floor(right), below - np.floor(below)
    framed = np.pad(x[0], ((0, 0), (0, 1), (0, 1)))
    upper = (1 - to_right) * framed[:, line, column] + to_right * framed[:, line, column + 1]
    lower = (1 - to_right) * framed[:, line + 1, column]
    lower = lower + to_right * framed[:, line + 1, column + 1]
    y = np.where(inside, to_below * lower + (1 - to_below) * upper, 0)
    return np.asarray(y[None], x.dtype)
