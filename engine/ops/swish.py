"""The op swish."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases(alpha=1.5),
    dtypes=FLOATS,
    traits=Traits(activation=("alpha",), worth_integers=True),
)
def swish(x: Array, *, alpha: float = 1.0) -> Array:
    """y = x / (1 + exp(-alpha * x))."""
    return np.asarray(x / (1 + np.exp(-x.dtype.type(alpha) * x)))
