"""The op elu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases(alpha=0.5),
    dtypes=FLOATS,
    traits=Traits(activation=("alpha",), worth_integers=True),
)
def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """y = x where x >= 0, else alpha * (exp(x) - 1)."""
    return np.where(x < 0, x.dtype.type(alpha) * np.expm1(x), x)
