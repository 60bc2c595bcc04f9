"""arg_min."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.reduction import reduced_shape
from palmkit.engine.ops.rules import need_dtype, positive_axis


def _infer(x: Type, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Type:
    need_dtype("arg_min", x, among=NUMBERS)
    axis = positive_axis("arg_min", axis, x)
    return Type("int64", reduced_shape(x.dims, (axis,), keepdims))


_TIES = np.array([[3, 1, 1], [2, 2, 4]], np.float32)


@op(
    _infer,
    case((3, 70)),
    case((2, 3, 4), axis=-1, keepdims=0),
    case((1, 19, 5, 7), axis=1),
    case(_TIES, axis=1),
    case(_TIES, axis=1, select_last_index=1),
)
def arg_min(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
    """Where along the axis the least lies; of several the first, or the last if asked."""
    if select_last_index:
        last = x.shape[axis] - 1
        return np.asarray(last - np.flip(x, axis).argmin(axis, keepdims=bool(keepdims)))
    return np.asarray(x.argmin(axis, keepdims=bool(keepdims)))
