"""The op gather_nd."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.indexing import INDICES, need_places
from palmkit.engine.ops.rules import need_dtype, need_rank
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, indices: Type, *, batch_dims: int) -> Type:
    need_dtype("gather_nd", indices, among=INDICES)
    need_rank("gather_nd", x, 1)
    need_rank("gather_nd", indices, 1)
    depth = indices.dims[-1]
    if not 0 <= batch_dims < min(len(x.shape), len(indices.shape)):
        raise ShapeError(f"gather_nd: batch_dims {batch_dims} does not fit {x} and {indices}")
    if x.dims[:batch_dims] != indices.dims[:batch_dims]:
        raise ShapeError(f"gather_nd: expected {batch_dims} same dims, got {x} and {indices}")
    if not 1 <= depth <= len(x.shape) - batch_dims:
        raise ShapeError(f"gather_nd: {indices} names too few or too many axes of {x}")
    need_places("gather_nd", indices, x.dims[batch_dims : batch_dims + depth])
    return Type(x.dtype, (*indices.dims[:-1], *x.dims[batch_dims + depth :]))


@op(
    _infer,
    case((2, 2), np.array([[0, 0], [1, -1]])),
    case((2, 3), np.array([[1], [0], [1]])),
    case((2, 2, 3), np.array([[[0, 1]], [[1, 0]]])),
    case((2, 2, 3), np.array([[1], [0]]), batch_dims=1),
    case((2, 3, 4), np.array([[[0, 1], [2, -1]], [[1, 3], [0, 0]]]), batch_dims=1),
    case((2, 2), np.array([[0, 1]]), dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """The slices of x that the rows of `indices` name; the first batch_dims axes are shared."""
    outer = np.ix_(*map(np.arange, indices.shape[:batch_dims]))
    missing = indices.ndim - 1 - batch_dims
    aligned = [each.reshape(*each.shape, *(1,) * missing) for each in outer]
    return np.asarray(x[(*aligned, *np.moveaxis(indices, -1, 0))])
