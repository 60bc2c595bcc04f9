"""The op shrink."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(
    *unary_cases(),
    *unary_cases(lambd=1.0, bias=0.25),
    *unary_cases("int32")[:2],
    traits=Traits(family=Family.ACTIVATION),
)
def shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    """y = x + bias where x < -lambd, x - bias where x > lambd, else 0."""
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0))
