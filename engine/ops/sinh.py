"""The op sinh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def sinh(x: Array) -> Array:
    """The hyperbolic sine of x."""
    return np.sinh(x)
