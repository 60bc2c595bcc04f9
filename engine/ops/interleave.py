"""The op interleave."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import DTYPES, Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype
from palmkit.engine.ops.traits import Family, Traits


def _infer(*inputs: Type, axis: int, first: int, count: int) -> Type:
    dtype = need_dtype("interleave", *inputs, among=DTYPES)
    x = inputs[0]
    if any(each.dims != x.dims for each in inputs):
        raise ShapeError(f"interleave: expected inputs of one shape, got {[*map(str, inputs)]}")
    if not 0 <= axis < len(x.dims) or not 0 <= first <= first + count <= x.dims[axis]:
        raise ValueError(f"axis, first or count is out of range for {x}")
    return Type(dtype, (*x.dims[:axis], count * len(inputs), *x.dims[axis + 1 :]))


@op(
    _infer,
    case((1, 8, 3, 2), (1, 8, 3, 2), axis=1, count=8),
    case((2, 29, 3, 2), (2, 29, 3, 2), axis=1, first=14, count=15),
    case((2, 5, 3), (2, 5, 3), (2, 5, 3), axis=1, first=1, count=2),
    case((2, 5), (2, 5), axis=0, count=2),
    case((3, 2, 16), (3, 2, 16), (3, 2, 16), (3, 2, 16), axis=2, first=3, count=8),
    case((4, 6), axis=1, first=2, count=3, dtype="int64"),
    case((4, 6), (4, 6), axis=1, first=6, count=0, dtype="uint8"),
    traits=Traits(family=Family.MOVEMENT),
)
def interleave(*inputs: Array, axis: int, first: int = 0, count: int) -> Array:
    """The inputs' elements along an axis by turns: `count` of each, from `first` on.

    With n inputs, y's element n * i + j along the axis is the j-th input's element first + i: the
    concat of the inputs, its channels shuffled, and a part cut out.
    """
    kept = [x.take(range(first, first + count), axis) for x in inputs]
    shape = (*inputs[0].shape[:axis], count * len(inputs), *inputs[0].shape[axis + 1 :])
    return np.stack(kept, axis + 1).reshape(shape)
