"""The op cast."""

import numpy as np

from palmkit.engine.ir import DTYPES, Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.casting import converted
from palmkit.engine.ops.traits import Elementwise, Family, Traits


def _infer(x: Type, *, to: str, saturate: int, round_mode: str) -> Type:
    if to not in DTYPES:
        raise ValueError(f"unknown dtype: {to}")
    return Type(to, x.shape)


@op(
    _infer,
    case((2, 19), to="float32"),
    case((2, 19), to="int32"),
    case((2, 19), to="int64"),
    case((2, 19), to="float64"),
    case((2, 19), to="float16"),
    case((2, 19), to="bfloat16"),
    case((2, 19), to="float8_e4m3fn"),
    case(np.array([1e5, -1e5, np.inf, 0.3], np.float32), to="float8_e5m2"),
    case(np.array([1e5, -1e5, np.inf, 0.3], np.float32), to="float8_e5m2", saturate=0),
    case((2, 19), dtype="int64", to="float32"),
    case((2, 19), dtype="uint8", to="float32"),
    case((2, 19), dtype="bool", to="float32"),
    case(np.array([0, 1, -0.5, 3], np.float32), to="bool"),
    traits=Traits(elementwise=Elementwise.UNARY, family=Family.MOVEMENT),
)
def cast(x: Array, *, to: str, saturate: int = 1, round_mode: str = "up") -> Array:
    """x in the dtype of this name in the IR; floats become integers by rounding towards zero."""
    return converted(x, to, saturate, round_mode)
