"""The op pow."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS, is_float, wide
from palmkit.engine.ops.elementwise import binary_cases
from palmkit.engine.ops.rules import broadcast, need_dtype
from palmkit.engine.ops.traits import Elementwise, Traits


def _infer(x: Type, y: Type) -> Type:
    need_dtype("pow", x, among=NUMBERS)
    need_dtype("pow", y, among=NUMBERS)
    return Type(x.dtype, broadcast("pow", x, y))


@op(
    _infer,
    *binary_cases(),
    case((2, 19), np.array(2, np.float32)),
    case((2, 19), np.array([0.5], np.float32)),
    case((2, 19), np.array([3])),
    case(np.array([1, 2, -3]), np.array([4, 0, 3])),
    traits=Traits(elementwise=Elementwise.BROADCAST),
)
def pow_(x: Array, y: Array) -> Array:
    """z = x ** y, of the dtype of x."""
    if not is_float(x) and not is_float(y) and (y >= 0).all():
        return np.asarray(np.power(x, y.astype(x.dtype)))
    base = wide(x) if is_float(x) else x.astype(np.float64)
    return np.asarray(np.power(base, wide(y))).astype(x.dtype, copy=False)
