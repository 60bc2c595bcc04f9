"""The op cosh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def cosh(x: Array) -> Array:
    """The hyperbolic cosine of x."""
    return np.cosh(x)
