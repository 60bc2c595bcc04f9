"""The op gather."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import need_places
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, indices: Type, *, axis: int) -> Type:
    need_dtype("gather", indices, among=("int32", "int64"))
    axis = positive_axis("gather", axis, x)
    need_places("gather", indices, x.dims[axis : axis + 1])
    return Type(x.dtype, (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]))


@op(
    _infer,
    case((5, 7), np.array([0, -1, 3, 3])),
    case((5, 7), np.array([[2, 1], [0, -7]]), axis=1),
    case((2, 3, 4), np.array(1), axis=-1),
    case((4,), np.array(2, np.int32), dtype="int64"),
    case((2, 3), np.array([], np.int64), axis=1),
    traits=Traits(movement=Movement.PICKS),
)
def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """The slices of x along the axis that the indices name; negative ones count from the end."""
    return np.take(x, indices, axis)
