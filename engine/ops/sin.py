"""The op sin."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def sin(x: Array) -> Array:
    """The sine of x, in radians."""
    return np.sin(x)
