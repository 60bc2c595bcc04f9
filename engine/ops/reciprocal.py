"""The op reciprocal."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def reciprocal(x: Array) -> Array:
    """y = 1 / x."""
    return np.reciprocal(x)
