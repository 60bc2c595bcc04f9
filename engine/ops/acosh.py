"""The op acosh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), case(np.linspace(1, 9, 19, dtype=np.float32)), dtypes=FLOATS)
def acosh(x: Array) -> Array:
    """The number whose hyperbolic cosine is x; NaN below 1."""
    return np.arccosh(x)
