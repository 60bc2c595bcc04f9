"""erf."""

import math

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), case(np.linspace(-5, 5, 41, dtype=np.float32)), dtypes=FLOATS)
def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))
