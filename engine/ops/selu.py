"""The op selu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(
    *unary_cases(),
    *unary_cases(alpha=2.0, gamma=3.0),
    dtypes=FLOATS,
    traits=Traits(family=Family.ACTIVATION),
)
def selu(
    x: Array, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Array:
    """y = gamma * x where x > 0, else gamma * alpha * (exp(x) - 1)."""
    kind = x.dtype.type
    return np.asarray(kind(gamma) * np.where(x > 0, x, kind(alpha) * np.expm1(x)))
