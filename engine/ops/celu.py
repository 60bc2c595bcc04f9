"""The op celu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(
    *unary_cases(), *unary_cases(alpha=2.0), dtypes=FLOATS, traits=Traits(family=Family.ACTIVATION)
)
def celu(x: Array, *, alpha: float = 1.0) -> Array:
    """y = max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    scale = x.dtype.type(alpha)
    return np.asarray(np.maximum(x, 0) + np.minimum(0, scale * np.expm1(x / scale)))
