"""Builder of the ops that return the index of an extreme along an axis."""

from collections.abc import Callable

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Op, case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.reduction import reduced_shape
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits

Find = Callable[[Array, int, bool], Array]

_TIES = np.array([[1, 3, 3, 1], [2, 2, 0, 0]], np.float32)


def arg_extreme(find: Find) -> Op:
    """Register the decorated numpy function of (x, axis, keepdims), which finds the first."""
    name = find.__name__

    def infer(x: Type, *, axis: int, keepdims: int, select_last_index: int) -> Type:
        need_dtype(name, x, among=NUMBERS)
        axis = positive_axis(name, axis, x)
        if not x.dims[axis]:
            raise ShapeError(f"{name}: axis {axis} of {x} is empty")
        return Type("int64", reduced_shape(x.dims, (axis,), keepdims))

    def meaning(x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Array:
        if select_last_index:
            return np.asarray(x.shape[axis] - 1 - find(np.flip(x, axis), axis, bool(keepdims)))
        return np.asarray(find(x, axis, bool(keepdims)))

    meaning.__name__, meaning.__doc__ = name, find.__doc__
    return op(
        infer,
        case((3, 70)),
        case((2, 3, 4), axis=-1, keepdims=0),
        case((1, 19, 5, 7), axis=1),
        case(_TIES, axis=1),
        case(_TIES, axis=1, select_last_index=1),
        case((3, 7), axis=1, dtype="int32"),
        traits=Traits(family=Family.REDUCTION),
    )(meaning)
