"""The op is_nan."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS, FLOATS8
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS + FLOATS8, result="bool")
def is_nan(x: Array) -> Array:
    """Whether x is NaN."""
    return np.isnan(x)
