"""The op div."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import is_float
from palmkit.engine.ops.elementwise import binary_cases, elementwise


@elementwise(
    *binary_cases(),
    case(np.array([7, -7, 7, -7, 6, 0]), np.array([2, 2, -2, -2, -3, 5])),
)
def div(a: Array, b: Array) -> Array:
    """y = a / b; of integers the quotient rounded towards zero."""
    if is_float(a):
        return np.divide(a, b)
    quotient, rest = np.divmod(a, b)
    return np.asarray(quotient + ((rest != 0) & ((a < 0) != (b < 0))))
