"""The op tensor_scatter."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import INDICES
from palmkit.engine.ops.rules import need_dtype, need_rank, positive_axis


def _infer(
    past_cache: Type,
    update: Type,
    write_indices: Type | None = None,
    *,
    axis: int,
    mode: str,
) -> Type:
    if mode not in ("linear", "circular"):
        raise ValueError(f"unknown mode: {mode}")
    need_dtype("tensor_scatter", past_cache, update, among=(past_cache.dtype,))
    need_rank("tensor_scatter", past_cache, 2)
    axis = positive_axis("tensor_scatter", axis, past_cache)
    dims, added = list(past_cache.dims), list(update.dims)
    if axis == 0 or len(added) != len(dims) or added[axis] > dims[axis]:
        raise ShapeError(f"tensor_scatter: {update} does not fit {past_cache}, axis {axis}")
    if added[:axis] + added[axis + 1 :] != dims[:axis] + dims[axis + 1 :]:
        raise ShapeError(f"tensor_scatter: {update} does not fit {past_cache}, axis {axis}")
    if write_indices is not None:
        need_dtype("tensor_scatter", write_indices, among=INDICES)
        if write_indices.dims != (dims[0],):
            raise ShapeError(f"tensor_scatter: expected [{dims[0]}] indices, got {write_indices}")
    return Type(past_cache.dtype, past_cache.shape)


@op(
    _infer,
    case((2, 1, 4, 5), (2, 1, 2, 5)),
    case((2, 1, 4, 5), (2, 1, 2, 5), np.array([1, 2])),
    case((2, 4, 5), (2, 2, 5), np.array([3, 0]), axis=1, mode="circular"),
)
def tensor_scatter(
    past_cache: Array,
    update: Array,
    write_indices: Array | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Array:
    """The cache with the update written along the axis.

    write_indices: where the update begins, for each index of the first axis, the batch; 0 if left
    out.
    mode: "circular" wraps round to the start; "linear" must stay before the end.
    """
    axis %= past_cache.ndim
    batch, length = past_cache.shape[0], update.shape[axis]
    starts = np.zeros(batch, np.int64) if write_indices is None else write_indices
    steps: Array = np.arange(int(length))
    places: Array = np.add.outer(starts, steps)
    if mode == "circular":
        places = places % past_cache.shape[axis]
    if places.size and not 0 <= places.min() <= places.max() < past_cache.shape[axis]:
        raise ValueError(f"write_indices {starts.tolist()} do not leave place for {length}")
    present = np.moveaxis(past_cache.copy(), axis, 1)
    present[np.arange(batch)[:, None], places] = np.moveaxis(update, axis, 1)
    return np.ascontiguousarray(np.moveaxis(present, 1, axis))
