"""The op softmax."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits

CASES: tuple[Case, ...] = (
    case((3, 70)),
    case((7,)),
    case((1, 19, 5, 7), axis=1),
    case((2, 3, 4), axis=0),
    case((2, 3, 4), axis=-2),
    case((1, 1)),
    case((0, 3)),
    case(np.array([[1000, 1001, -1000]], np.float32)),
)


def _infer(x: Type, *, axis: int) -> Type:
    need_dtype("softmax", x, among=FLOATS)
    positive_axis("softmax", axis, x)
    return Type(x.dtype, x.shape)


@op(_infer, *CASES, traits=Traits(non_negative=True, family=Family.ACTIVATION))
def softmax(x: Array, *, axis: int = -1) -> Array:
    """y = exp(x) / sum(exp(x)) along the axis."""
    y = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return np.asarray(y / wide(y).sum(axis, keepdims=True).astype(x.dtype, copy=False))
