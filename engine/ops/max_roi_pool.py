"""The op max_roi_pool."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, rois: Type, *, pooled_shape: tuple[int, ...], spatial_scale: float) -> Type:
    need_dtype("max_roi_pool", x, rois, among=FLOATS)
    need_rank("max_roi_pool", x, 4, 4)
    if len(rois.dims) != 2 or rois.dims[1] != 5:
        raise ShapeError(f"max_roi_pool: expected regions of [n, 5], got {rois}")
    if len(pooled_shape) != 2 or min(pooled_shape) < 1:
        raise ValueError(f"expected a pooled_shape of 2 numbers above 0, got {pooled_shape}")
    return Type(x.dtype, (rois.dims[0], x.dims[1], *pooled_shape))


def _bins(start: int, end: int, count: int, length: int) -> list[tuple[int, int]]:
    """Return where the bins of a region begin and end along one axis, cut to the picture."""
    size = np.float32(max(end - start + 1, 1)) / np.float32(count)
    places = np.arange(count, dtype=np.float32)
    begins = np.floor(places * size).astype(np.int64) + start
    ends = np.ceil((places + 1) * size).astype(np.int64) + start
    return [*zip(begins.clip(0, length).tolist(), ends.clip(0, length).tolist(), strict=True)]


_ROIS = np.array([[0, 0, 0, 6, 4], [1, 2, 1, 5, 3], [0, 3, 3, 3, 3], [1, -3, 5, 40, 9]], np.float32)


@op(
    _infer,
    case((2, 3, 7, 9), _ROIS, pooled_shape=(2, 3)),
    case((2, 3, 7, 9), _ROIS, pooled_shape=(4, 4), spatial_scale=0.5),
    case((2, 3, 7, 9), _ROIS, pooled_shape=(1, 1), spatial_scale=0.3),
    case((2, 3, 7, 9), np.zeros((0, 5), np.float32), pooled_shape=(2, 2)),
    traits=Traits(family=Family.SAMPLING),
)
def max_roi_pool(
    x: Array, rois: Array, *, pooled_shape: tuple[int, ...], spatial_scale: float = 1.0
) -> Array:
    """The maxima of a grid of bins over each region; 0 for bins outside of the picture.

    rois: the number of the picture, then the corners x1, y1, x2, y2, to be scaled and rounded;
    a region includes both.
    """
    height, width = x.shape[2:]
    y = np.zeros((len(rois), x.shape[1], *pooled_shape), x.dtype)
    for i, roi in enumerate(rois):
        if not 0 <= roi[0] < len(x):
            raise ShapeError(f"max_roi_pool: no picture {roi[0]} in {Type.of(x)}")
        # Rounds as C does, half away from zero.
        scaled = roi[1:].astype(np.float32) * np.float32(spatial_scale)
        corners = np.trunc(scaled + np.copysign(np.float32(0.5), scaled)).astype(np.int64)
        rows = _bins(corners[1], corners[3], pooled_shape[0], height)
        columns = _bins(corners[0], corners[2], pooled_shape[1], width)
        for row, (top, bottom) in enumerate(rows):
            for column, (left, right) in enumerate(columns):
                window = x[int(roi[0]), :, top:bottom, left:right]
                if window.size:
                    y[i, :, row, column] = window.max((1, 2))
    return y
