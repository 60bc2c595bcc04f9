"""The op psroi_pooling."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, rois: Type, *, output_dim: int, group_size: int, spatial_scale: float) -> Type:
    need_dtype("psroi_pooling", x, rois, among=("float32",))
    need_rank("psroi_pooling", x, 4, 4)
    if len(rois.dims) != 2 or rois.dims[1] != 5:
        raise ShapeError(f"psroi_pooling: expected regions of [n, 5], got {rois}")
    if output_dim < 1 or group_size < 1 or x.dims[1] != output_dim * group_size**2:
        raise ShapeError(f"psroi_pooling: expected {output_dim} * {group_size}**2 channels: {x}")
    return Type("float32", (rois.dims[0], output_dim, group_size, group_size))


_ROIS = np.array([[0, 0, 0, 6, 4], [1, 2, 1, 5, 3], [0, 3, 3, 3, 3], [1, -3, 5, 40, 9]], np.float32)


@op(
    _infer,
    case((2, 8, 7, 9), _ROIS, output_dim=2, group_size=2),
    case((2, 27, 7, 9), _ROIS, output_dim=3, group_size=3, spatial_scale=0.5),
    traits=Traits(family=Family.SAMPLING),
)
def psroi_pooling(
    x: Array, rois: Array, *, output_dim: int, group_size: int, spatial_scale: float = 1.0
) -> Array:
    """The means of a grid of bins over each region; each bin reads its own channel.

    rois: the number of the picture, then the corners x1, y1, x2, y2, rounded, then scaled. A bin
    outside of the picture gives 0.
    Dai et al.: R-FCN, 2016; the layer PSROIPooling of its Caffe (daijifeng001/caffe-rfcn).
    """
    sizes = x.shape[2:]
    channels = x.reshape(len(x), output_dim, group_size, group_size, *sizes)
    y = np.zeros((len(rois), output_dim, group_size, group_size), np.float32)
    places = np.arange(group_size, dtype=np.float32)
    for i, roi in enumerate(rois.astype(np.float32)):
        if not 0 <= roi[0] < len(x):
            raise ShapeError(f"psroi_pooling: no picture {roi[0]} in {Type.of(x)}")
        # Rounds as C does, half away from zero.
        whole = np.trunc(roi[1:] + np.copysign(np.float32(0.5), roi[1:]))
        starts = whole[1::-1] * np.float32(spatial_scale)
        ends = (whole[:1:-1] + 1) * np.float32(spatial_scale)
        steps = np.maximum(ends - starts, np.float32(0.1)) / np.float32(group_size)
        rows, columns = (
            np.stack([np.floor(places * step + start), np.ceil((places + 1) * step + start)], 1)
            .clip(0, size)
            .astype(np.int64)
            .tolist()
            for step, start, size in zip(steps, starts, sizes, strict=True)
        )
        for row, (top, bottom) in enumerate(rows):
            for column, (left, right) in enumerate(columns):
                window = channels[int(roi[0]), :, row, column, top:bottom, left:right]
                if window.size:
                    y[i, :, row, column] = window.mean((1, 2))
    return y
