"""The op quantized_add."""

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
    a_scale: float,
    b_scale: float,
    a_zero_point: int,
    b_zero_point: int,
    y_zero_point: int,
    low: int,
    high: int,
) -> Type:
    need_dtype("quantized_add", a, b, among=("uint8",))
    need_levels("quantized_add", (a_zero_point, b_zero_point, y_zero_point), low, high)
    return Type("uint8", broadcast("quantized_add", a, b))


_X = (2, 19, 7, 5)


@op(
    _infer,
    case(_X, _X, a_scale=0.7, b_scale=1.3, a_zero_point=30, b_zero_point=60, y_zero_point=20,
         dtype="uint8"),
    case(_X, _X, a_scale=0.5, b_scale=-0.5, a_zero_point=0, b_zero_point=3, y_zero_point=128,
         low=128, high=150, dtype="uint8"),
    case(_X, (1, 19, 1, 1), a_scale=0.9, b_scale=0.25, a_zero_point=30, b_zero_point=60,
         y_zero_point=20, dtype="uint8"),
    case((3, 1), (3, 70), a_scale=0.9, b_scale=0.25, a_zero_point=30, b_zero_point=60,
         y_zero_point=20, dtype="uint8"),
    traits=Traits(elementwise=Elementwise.BROADCAST),
)  # fmt: skip
def quantized_add(
    a: Array,
    b: Array,
    *,
    a_scale: float,
    b_scale: float,
    a_zero_point: int,
    b_zero_point: int,
    y_zero_point: int,
    low: int = 0,
    high: int = 255,
) -> Array:
    """(a - a_zero_point) * a_scale + (b - b_zero_point) * b_scale in steps of y, to uint8.

    Each operation is rounded to float32; then to the nearest integer, ties to even, plus
    y_zero_point, within low..high. The scales are those of a and b over that of y.
    """
    parts = [
        (x.astype(np.int32) - zero).astype(np.float32) * np.float32(scale)
        for x, scale, zero in ((a, a_scale, a_zero_point), (b, b_scale, b_zero_point))
    ]
    return requantized(parts[0] + parts[1], y_zero_point, low, high)
