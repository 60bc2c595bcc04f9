"""The op hard_sigmoid."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases(alpha=0.5, beta=0.25),
    dtypes=FLOATS,
    traits=Traits(activation=("alpha", "beta"), non_negative=True, worth_integers=True),
)
def hard_sigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """y = max(0, min(1, alpha * x + beta))."""
    return np.asarray(np.clip(x.dtype.type(alpha) * x + x.dtype.type(beta), 0, 1))
