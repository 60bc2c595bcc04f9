"""The op compress."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops import Undetermined, case, op
from palmkit.engine.ops.rules import need_dtype, need_rank, positive_axis


def _infer(x: Type, condition: Type, *, axis: int | None) -> Type:
    need_dtype("compress", condition, among=("bool",))
    need_rank("compress", condition, 1, 1)
    place = 0 if axis is None else positive_axis("compress", axis, x)
    length = x.elements if axis is None else x.dims[place]
    if condition.elements > length:
        raise ShapeError(f"compress: {condition} is longer than axis {axis} of {x}")
    if not isinstance(condition, Known):
        raise Undetermined("compress: how much is left is known at run time only")
    count = int(np.count_nonzero(condition.value))
    if axis is None:
        return Type(x.dtype, (count,))
    return Type(x.dtype, (*x.dims[:place], count, *x.dims[place + 1 :]))


@op(
    _infer,
    case((3, 2), np.array([False, True, True]), axis=0),
    case((3, 2), np.array([False, True]), axis=-1),
    case((3, 2), np.array([False, True, False, False, True])),
    case((3, 2), np.array([True]), axis=0, dtype="int64"),
)
def compress(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    """The slices along the axis, or the elements, for which the condition holds."""
    return np.compress(condition, x, axis)
