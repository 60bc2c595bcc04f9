"""neg."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS, SIGNED
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), *unary_cases("int32")[:2], dtypes=FLOATS + SIGNED)
def neg(x: Array) -> Array:
    """y = -x."""
    return np.negative(x)
