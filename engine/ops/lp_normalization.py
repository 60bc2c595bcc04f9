"""The op lp_normalization."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import FLOATS, wide
from palmkit.engine.ops.rules import need_dtype, positive_axis
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, *, axis: int, p: int) -> Type:
    need_dtype("lp_normalization", x, among=FLOATS)
    positive_axis("lp_normalization", axis, x)
    if p not in (1, 2):
        raise ValueError(f"expected p of 1 or 2, got {p}")
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((3, 7)),
    case((2, 3, 4), axis=0, p=1),
    case((1, 19, 5, 7), axis=1),
    case(np.array([[0, 0], [3, -4]], np.float32)),
    traits=Traits(family=Family.NORMALISATION),
)
def lp_normalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """x divided by its norm along the axis, of magnitudes (p=1) or squares (p=2); 0 for zeros."""
    values = wide(x)
    norm = np.absolute(values) if p == 1 else np.square(values)
    norm = norm.sum(axis, keepdims=True)
    norm = norm if p == 1 else np.sqrt(norm)
    return np.where(norm == 0, 0, values / norm).astype(x.dtype)
