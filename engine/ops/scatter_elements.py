"""The op scatter_elements."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import along_axis, need_elements, need_reduction, scattered
from palmkit.engine.ops.rules import positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, indices: Type, updates: Type, *, axis: int, reduction: str) -> Type:
    need_reduction(reduction)
    axis = positive_axis("scatter_elements", axis, x)
    need_elements("scatter_elements", x, indices, axis, updates)
    return Type(x.dtype, x.shape)


_TWICE = np.array([[1, 0, 1], [1, 2, 0]])


@op(
    _infer,
    case((3, 3), np.array([[1, 0, 2], [0, 2, 1]]), (2, 3)),
    case((1, 5), np.array([[1, -2]]), (1, 2), axis=1),
    case((3, 3), _TWICE, (2, 3), reduction="add"),
    case((3, 3), _TWICE, (2, 3), reduction="mul"),
    case((3, 3), _TWICE, (2, 3), reduction="max"),
    case((3, 3), _TWICE, (2, 3), reduction="min"),
    case((2, 3), np.array([[2, 0]]), (1, 2), axis=-1, dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    """x with each update written to its own place, moved to its index along the axis.

    reduction: how an update joins the element there: none (it replaces it), add, mul, max or min.
    """
    return scattered(x, along_axis(indices, axis), updates, reduction)
