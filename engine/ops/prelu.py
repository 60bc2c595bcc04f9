"""The op prelu."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.dtypes import NUMBERS
from palmkit.engine.ops.rules import need_broadcast_to, need_dtype
from palmkit.engine.ops.traits import Elementwise, Traits

_SLOPES = np.linspace(0.1, 0.9, 19, dtype=np.float32)


def _infer(x: Type, slope: Type) -> Type:
    need_dtype("prelu", x, slope, among=NUMBERS)
    need_broadcast_to("prelu", slope, x)
    return Type(x.dtype, x.shape)


@op(
    _infer,
    case((1, 19, 5, 7), _SLOPES.reshape(19, 1, 1)),
    case((2, 19, 5, 7), _SLOPES.reshape(1, 19, 1, 1)),
    case((2, 3, 19), _SLOPES),
    case((2, 19, 3), (19, 1)),
    case((1, 19, 5, 7), np.full(1, 0.3, np.float32)),
    case((2, 3), (2, 3)),
    case((), ()),
    traits=Traits(
        elementwise=Elementwise.TO_FIRST, slope="slope", activation=(), worth_integers=True
    ),
)
def prelu(x: Array, slope: Array) -> Array:
    """y = x where x >= 0, else slope * x; the slope broadcasts to x."""
    return np.where(x < 0, slope * x, x)
