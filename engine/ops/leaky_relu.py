"""The op leaky_relu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases(alpha=0.25),
    dtypes=FLOATS,
    traits=Traits(slope="alpha", activation=("alpha",), worth_integers=True),
)
def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    """y = x where x >= 0, else alpha * x."""
    return np.where(x < 0, x.dtype.type(alpha) * x, x)
