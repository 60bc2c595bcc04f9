"""The op top_k."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import known_number, need_dtype, need_rank, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, k: Type, *, axis: int, largest: int, sorted: int) -> tuple[Type, ...]:
    need_dtype("top_k", x, among=NUMBERS)
    need_dtype("top_k", k, among=("int64",))
    need_rank("top_k", k, 0, 1)
    axis = positive_axis("top_k", axis, x)
    count = int(known_number(k, "top_k: k").item())
    if not 0 <= count <= x.dims[axis]:
        raise ShapeError(f"top_k: there are no {count} elements along axis {axis} of {x}")
    dims = (*x.dims[:axis], count, *x.dims[axis + 1 :])
    return Type(x.dtype, dims), Type("int64", dims)


_TIES = np.array([[1, 3, 3, 0], [2, 2, 0, 2]], np.float32)


@op(
    _infer,
    case((3, 70), np.array([5]), outputs=2),
    case((3, 7), np.array([7]), largest=0, outputs=2),
    case((4, 3, 2), np.array([2]), axis=0, outputs=2),
    case((4, 3, 2), np.array([2]), axis=-2, largest=0, outputs=2),
    case(_TIES, np.array([3]), outputs=2),
    case(_TIES, np.array([3]), largest=0, outputs=2),
    case((3, 7), np.array([3]), dtype="int64", outputs=2),
    traits=Traits(family=Family.REDUCTION),
)
def top_k(x: Array, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Results:
    """The k largest along the axis (the smallest if not `largest`), and their indices.

    They are in order, of equal ones the first comes first; `sorted` = 0 allows any order.
    """
    if largest:
        backward = np.argsort(np.flip(x, axis), axis, kind="stable")
        order = x.shape[axis] - 1 - np.flip(backward, axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    first: Array = np.arange(int(k.item()))
    chosen = np.take(order, first, axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)
