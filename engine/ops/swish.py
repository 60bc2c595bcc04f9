"""swish."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), *unary_cases(alpha=1.5), dtypes=FLOATS)
def swish(x: Array, *, alpha: float = 1.0) -> Array:
    """y = x / (1 + exp(-alpha * x))."""
    return np.asarray(x / (1 + np.exp(-x.dtype.type(alpha) * x)))
