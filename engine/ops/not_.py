"""not."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases("bool"), dtypes=("bool",))
def not_(x: Array) -> Array:
    """Is x false?"""
    return np.logical_not(x)
