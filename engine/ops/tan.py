"""The op tan."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def tan(x: Array) -> Array:
    """The tangent of x, in radians."""
    return np.tan(x)
