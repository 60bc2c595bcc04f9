"""Builder of the ops that accumulate along an axis."""

from collections.abc import Callable

import numpy as np

from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops import Op, case, op
from palmkit.engine.ops.dtypes import NUMBERS, wide
from palmkit.engine.ops.rules import need_dtype, need_one, need_rank, positive_axis
from palmkit.engine.ops.traits import Family, Traits

Accumulate = Callable[[Array, int], Array]

_CASES = (
    case((5,), np.array(0)),
    case((3, 4), np.array(1)),
    case((3, 4), np.array([-2], np.int32)),
    case((3, 4), np.array(0), exclusive=1),
    case((3, 4), np.array(1), reverse=1),
    case((2, 3, 4), np.array(2), exclusive=1, reverse=1),
    case((3, 4), np.array(1), dtype="int64"),
    case((0, 4), np.array(0)),
)


def cumulation(start: int) -> Callable[[Accumulate], Op]:
    """Register the decorated numpy function of (x, axis).

    start: the value before the first element.
    """

    def register(accumulate: Accumulate) -> Op:
        name = accumulate.__name__

        def infer(x: Type, axis: Type, *, exclusive: int, reverse: int) -> Type:
            need_dtype(name, x, among=NUMBERS)
            need_dtype(name, axis, among=("int32", "int64"))
            need_rank(name, axis, 0, 1)
            need_rank(name, x, 1)
            need_one(f"{name}: axis", axis)
            if isinstance(axis, Known):
                positive_axis(name, int(axis.value.item()), x)
            return Type(x.dtype, x.shape)

        def meaning(x: Array, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Array:
            along = int(axis.item())
            y = wide(np.flip(x, along) if reverse else x)
            if exclusive:
                before = np.full_like(np.take(y, [], along), start, shape=_one(y, along))
                y = np.concatenate([before, np.delete(y, -1, along)], along) if y.size else y
            y = accumulate(y, along).astype(x.dtype, copy=False)
            return np.flip(y, along) if reverse else y

        meaning.__name__, meaning.__doc__ = name, accumulate.__doc__
        return op(infer, *_CASES, traits=Traits(family=Family.REDUCTION))(meaning)

    return register


def _one(x: Array, axis: int) -> tuple[int, ...]:
    """Return the shape of one slice along the axis."""
    return tuple(1 if i == axis % x.ndim else dim for i, dim in enumerate(x.shape))
