"""The op atan."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def atan(x: Array) -> Array:
    """The angle, in radians, whose tangent is x."""
    return np.arctan(x)
