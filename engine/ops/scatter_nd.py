"""The op scatter_nd."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import INDICES, need_places, need_reduction, scattered
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, indices: Type, updates: Type, *, reduction: str) -> Type:
    need_reduction(reduction)
    need_dtype("scatter_nd", indices, among=INDICES)
    need_dtype("scatter_nd", x, updates, among=(x.dtype,))
    need_rank("scatter_nd", indices, 1)
    depth = indices.dims[-1]
    wanted = (*indices.dims[:-1], *x.dims[depth:])
    if depth > len(x.shape) or updates.dims != wanted:
        raise ShapeError(f"scatter_nd: {updates} does not fit {indices} of {x}")
    need_places("scatter_nd", indices, x.dims[:depth])
    return Type(x.dtype, x.shape)


_TWICE = np.array([[1], [0], [1]])


@op(
    _infer,
    case((8,), np.array([[4], [3], [1], [-1]]), (4,)),
    case((4, 2, 3), np.array([[0], [2]]), (2, 2, 3)),
    case((2, 3), np.array([[[1, 2], [0, 0]]]), (1, 2)),
    case((2, 3), _TWICE, (3, 3), reduction="add"),
    case((2, 3), _TWICE, (3, 3), reduction="mul"),
    case((2, 3), _TWICE, (3, 3), reduction="max"),
    case((2, 3), _TWICE, (3, 3), reduction="min"),
    case((4,), np.array([[2]]), (1,), dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """x with the updates written to the slices that the rows of `indices` name.

    reduction: how an update joins the element there: none (it replaces it), add, mul, max or min.
    """
    return scattered(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)
