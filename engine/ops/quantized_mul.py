"""The op quantized_mul."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.quantization import need_levels, requantized
from palmkit.engine.ops.rules import broadcast, need_dtype
from palmkit.engine.ops.traits import Elementwise, Traits


def _infer(
    a: Type,
    b: Type,
    *,
    scale: float,
    a_zero_point: int,
    b_zero_point: int,
    y_zero_point: int,
    low: int,
    high: int,
) -> Type:
    need_dtype("quantized_mul", a, b, among=("uint8",))
    need_levels("quantized_mul", (a_zero_point, b_zero_point, y_zero_point), low, high)
    return Type("uint8", broadcast("quantized_mul", a, b))


_X = (2, 19, 7, 5)


@op(
    _infer,
    case(_X, _X, scale=0.03, a_zero_point=30, b_zero_point=60, y_zero_point=20, dtype="uint8"),
    case(_X, _X, scale=0.01, a_zero_point=0, b_zero_point=3, y_zero_point=128, low=128, high=150,
         dtype="uint8"),
    case(_X, (2, 19, 1, 1), scale=0.02, a_zero_point=30, b_zero_point=60, y_zero_point=20,
         dtype="uint8"),
    case((3, 1), (3, 70), scale=0.02, a_zero_point=30, b_zero_point=60, y_zero_point=20,
         dtype="uint8"),
    traits=Traits(elementwise=Elementwise.BROADCAST),
)  # fmt: skip
def quantized_mul(
    a: Array,
    b: Array,
    *,
    scale: float,
    a_zero_point: int,
    b_zero_point: int,
    y_zero_point: int,
    low: int = 0,
    high: int = 255,
) -> Array:
    """(a - a_zero_point) * (b - b_zero_point) * scale in steps of y, to uint8.

    The product of the integers is exact and its scaling rounded to float32; then to the nearest
    integer, ties to even, plus y_zero_point, within low..high. The scale is those of a and b over
    that of y.
    """
    product = (a.astype(np.int32) - a_zero_point) * (b.astype(np.int32) - b_zero_point)
    return requantized(product.astype(np.float32) * np.float32(scale), y_zero_point, low, high)
