"""The op atanh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), case(np.linspace(-0.9, 0.9, 19, dtype=np.float32)), dtypes=FLOATS)
def atanh(x: Array) -> Array:
    """The number whose hyperbolic tangent is x; NaN outside of -1..1."""
    return np.arctanh(x)
