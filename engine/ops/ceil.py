"""ceil."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def ceil(x: Array) -> Array:
    """The least whole number that is not below x."""
    return np.ceil(x)
