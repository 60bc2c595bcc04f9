"""The op asinh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def asinh(x: Array) -> Array:
    """The number whose hyperbolic sine is x."""
    return np.arcsinh(x)
