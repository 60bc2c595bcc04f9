"""The op concat."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import DTYPES, Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(*inputs: Type, axis: int) -> Type:
    dtype = need_dtype("concat", *inputs, among=DTYPES)
    first = inputs[0].dims
    axis = positive_axis("concat", axis, inputs[0])
    for each in inputs:
        if (*each.dims[:axis], *each.dims[axis + 1 :]) != (*first[:axis], *first[axis + 1 :]):
            raise ShapeError(f"concat: cannot join {inputs[0]} and {each} along axis {axis}")
    return Type(dtype, (*first[:axis], sum(x.dims[axis] for x in inputs), *first[axis + 1 :]))


@op(
    _infer,
    case((1, 3, 4, 5), (1, 16, 4, 5), axis=1),
    case((2, 3), (2, 3), (2, 1), axis=-1),
    case((1, 3, 4, 5), (1, 3, 2, 5), axis=2),
    case((7,), axis=0),
    case((2, 3), (0, 3), axis=0),
    case((1, 3, 4), np.ones((1, 2, 4), np.float32), axis=1),
    case((3,), np.array([1, 2]), axis=0, dtype="int64"),
    traits=Traits(worth_integers=True, family=Family.MOVEMENT),
)
def concat(*inputs: Array, axis: int) -> Array:
    """The inputs joined along the axis."""
    return np.concatenate(inputs, axis)
