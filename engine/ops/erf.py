"""The op erf."""

import math

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


def error_function(x: Array) -> Array:
    """2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x, in float64."""
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


@elementwise(*unary_cases(), case(np.linspace(-5, 5, 41, dtype=np.float32)), dtypes=FLOATS)
def erf(x: Array) -> Array:
    """The error function."""
    return error_function(x)
