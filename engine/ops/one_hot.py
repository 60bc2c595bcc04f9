"""The op one_hot."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import known_number, need_dtype, need_rank, positive_axis


def _infer(indices: Type, depth: Type, values: Type, *, axis: int) -> Type:
    need_dtype("one_hot", indices, among=NUMBERS)
    need_dtype("one_hot", depth, among=NUMBERS)
    need_rank("one_hot", depth, 0, 1)
    if values.dims != (2,):
        raise ShapeError(f"one_hot: expected values for off and on, got {values}")
    place = positive_axis("one_hot", axis, indices, extra=1)
    count = int(known_number(depth, "one_hot: depth").item())
    return Type(values.dtype, (*indices.dims[:place], count, *indices.dims[place:]))


_OFF_ON = np.array([0.5, 3], np.float32)
_INDICES = np.array([[1, 9], [2, -4]])


@op(
    _infer,
    case(np.array([0, 7, 8, -1]), np.array(10), _OFF_ON),
    case(_INDICES, np.array(10), _OFF_ON, axis=1),
    case(_INDICES, np.array([10]), _OFF_ON, axis=-2),
    case(_INDICES, np.array(3), np.array([0, 1]), axis=0),
)
def one_hot(indices: Array, depth: Array, values: Array, *, axis: int = -1) -> Array:
    """Along a new axis of size `depth` the second value at the index, else the first.

    Negative indices count from the end; an index out of range sets nothing.
    """
    count = int(depth.item())
    places = np.where(indices < 0, indices + count, indices)
    axis %= indices.ndim + 1
    steps = np.arange(count).reshape(-1, *(1,) * (indices.ndim - axis))
    return np.asarray(values[(np.expand_dims(places, axis) == steps).astype(np.intp)])
