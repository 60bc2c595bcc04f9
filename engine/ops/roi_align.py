"""The op roi_align."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Attr, Type
from palmkit.engine.ops import Case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.sampling import taps
from palmkit.engine.ops.traits import Family, Traits


def _infer(
    x: Type,
    rois: Type,
    batch_indices: Type,
    *,
    coordinate_transformation_mode: str,
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Type:
    need_dtype("roi_align", x, rois, among=FLOATS)
    need_rank("roi_align", x, 4, 4)
    if rois.dims[1:] != (4,) or batch_indices.dims != rois.dims[:1]:
        raise ShapeError(f"roi_align: expected boxes [n, 4], [n], got {rois}, {batch_indices}")
    if (
        mode not in ("avg", "max")
        or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel")
        or min(output_height, output_width) < 1
        or sampling_ratio < 0
    ):
        raise ValueError("unknown mode, or a size is out of range")
    return Type(x.dtype, (rois.dims[0], x.dims[1], output_height, output_width))


_ROIS = np.array([[0, 0, 9, 7], [1.5, 2, 4.7, 8.2], [-3, -2, 14, 12]], np.float32)
_BATCH = np.array([0, 1, 1])


def _case(boxes: int = 3, **attrs: Attr) -> Case:
    sizes: dict[str, Attr] = {"output_height": 3, "output_width": 4}
    return Case((Type("float32", (2, 3, 8, 10)), _ROIS[:boxes], _BATCH[:boxes]), {**sizes, **attrs})


@op(
    _infer,
    _case(),
    _case(sampling_ratio=2, spatial_scale=0.5),
    _case(coordinate_transformation_mode="output_half_pixel"),
    _case(mode="max", sampling_ratio=2),
    _case(boxes=0),
    traits=Traits(family=Family.SAMPLING),
)
def roi_align(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Array:
    """Each box of x[n, c, h, w], cut into output_height by output_width bins of one value each.

    rois: corners (x, y, x, y) in units of 1 / spatial_scale elements; batch_indices: the picture of
    each.
    A bin is the mean of x at sampling_ratio points an axis (0: one an element it covers), or in
    mode max the largest of the weighted elements at these points.
    He et al.: Mask R-CNN, 2017.
    """
    size = (output_height, output_width)
    y = np.zeros((len(rois), x.shape[1], *size), np.promote_types(x.dtype, np.float32))
    half_pixel = coordinate_transformation_mode == "half_pixel"
    corners = wide(rois) * np.float32(spatial_scale) - np.float32(0.5 * half_pixel)
    for i, (box, batch) in enumerate(zip(corners, batch_indices.reshape(-1), strict=True)):
        start, extent = box[1::-1], box[:1:-1] - box[1::-1]
        if not half_pixel:
            extent = np.maximum(extent, 1)
        bins = extent / size
        counts = [sampling_ratio or max(int(np.ceil(each)), 0) for each in bins]
        if not all(counts):
            continue
        places = [
            start[axis]
            + np.arange(size[axis])[:, None] * bins[axis]
            + (np.arange(counts[axis]) + 0.5) * bins[axis] / counts[axis]
            for axis in (0, 1)
        ]
        rows, columns = places[0][:, None, :, None], places[1][None, :, None, :]
        height, width = x.shape[2:]
        inside = (rows >= -1) & (rows <= height) & (columns >= -1) & (columns <= width)
        grid = np.stack(np.broadcast_arrays(rows, columns), -1)[None].astype(y.dtype)
        parts = [
            values * weight * inside
            for values, weight in taps(x[batch][None], grid, padding_mode="border")
        ]
        stacked = np.stack(parts)[:, 0]
        y[i] = stacked.sum(0).mean((-2, -1)) if mode == "avg" else stacked.max((0, -2, -1))
    return y.astype(x.dtype)
