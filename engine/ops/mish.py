"""mish."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), dtypes=FLOATS)
def mish(x: Array) -> Array:
    """y = x * tanh(ln(1 + exp(x)))."""
    return np.asarray(x * np.tanh(np.logaddexp(x, x.dtype.type(0))))
