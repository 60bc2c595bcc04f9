"""The op log."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), case(np.array([1e-30, 0.5, 1, 9, 0], np.float32)), dtypes=FLOATS)
def log(x: Array) -> Array:
    """The natural logarithm; NaN below zero."""
    return np.log(x)
