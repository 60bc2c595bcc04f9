"""The op gather_elements."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import along_axis, need_elements
from palmkit.engine.ops.rules import positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, indices: Type, *, axis: int) -> Type:
    need_elements("gather_elements", x, indices, positive_axis("gather_elements", axis, x))
    return Type(x.dtype, indices.shape)


@op(
    _infer,
    case((3, 3), np.array([[1, 2, 0], [2, 0, 0]])),
    case((2, 2), np.array([[0, 0], [1, 0]]), axis=1),
    case((3, 2, 4), np.array([[[-1, 0], [3, -4]]]), axis=-1),
    case((3,), np.array([2, 2, 0, 1], np.int32), dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """For each index the element of x in its place, but at the index along the axis."""
    return np.asarray(x[along_axis(indices, axis)])
