"""The op is_inf."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS, FLOATS8
from palmkit.engine.ops.elementwise import elementwise, unary_cases

_INFINITE = np.array([-np.inf, -1, 0, np.nan, np.inf], np.float32)


@elementwise(
    *unary_cases(),
    case(_INFINITE),
    case(_INFINITE, detect_negative=0),
    case(_INFINITE, detect_positive=0),
    dtypes=FLOATS + FLOATS8,
    result="bool",
)
def is_inf(x: Array, *, detect_negative: int = 1, detect_positive: int = 1) -> Array:
    """Whether x is infinite, with a sign that counts."""
    return np.isinf(x) & np.where(x < 0, bool(detect_negative), bool(detect_positive))
