"""dynamic_update_slice: TFLite's operator (tensorflow/lite/kernels/dynamic_update_slice.cc)."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype


def _infer(x: Type, update: Type, starts: Type) -> Type:
    need_dtype("dynamic_update_slice", x, update, among=(x.dtype,))
    need_dtype("dynamic_update_slice", starts, among=("int32", "int64"))
    fits = len(x.dims) == len(update.dims) and all(
        small <= big for small, big in zip(update.dims, x.dims, strict=True)
    )
    if not fits or starts.dims != (len(x.dims),):
        raise ShapeError(f"dynamic_update_slice: cannot put {update} into {x} at {starts}")
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((5, 7), (2, 3), np.array([1, 2])),
    case((5, 7), (2, 3), np.array([4, 6])),
    case((5, 7), (5, 3), np.array([3, -2], np.int32)),
    case((2, 5, 4), (1, 1, 4), np.array([1, 4, 0])),
    case((6,), (2,), np.array([3]), dtype="int64"),
)
def dynamic_update_slice(x: Array, update: Array, starts: Array) -> Array:
    """x with `update` written over a part of it; starts are moved so that all of it fits."""
    most = [big - small for big, small in zip(x.shape, update.shape, strict=True)]
    first = [min(max(int(start), 0), end) for start, end in zip(starts, most, strict=True)]
    y = x.copy()
    y[tuple(slice(s, s + n) for s, n in zip(first, update.shape, strict=True))] = update
    return y
