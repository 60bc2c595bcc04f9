"""The op hardmax."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, *, axis: int) -> Type:
    need_dtype("hardmax", x, among=FLOATS)
    positive_axis("hardmax", axis, x)
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((3, 7)),
    case((2, 3, 4), axis=0),
    case((2, 3, 4), axis=-2),
    case(np.array([[1, 3, 3], [0, 0, 0]], np.float32)),
    traits=Traits(family=Family.ACTIVATION),
)
def hardmax(x: Array, *, axis: int = -1) -> Array:
    """1 at the first maximum along the axis, else 0."""
    y = np.zeros_like(x)
    if x.size:
        np.put_along_axis(y, x.argmax(axis, keepdims=True), x.dtype.type(1), axis)
    return y
