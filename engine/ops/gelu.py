"""The op gelu."""

from math import pi, sqrt

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.erf import error_function
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(), *unary_cases(approximate="tanh"), dtypes=FLOATS, traits=Traits(activation=())
)
def gelu(x: Array, *, approximate: str = "none") -> Array:
    """y = x / 2 * (1 + erf(x / sqrt(2))), or its approximation with tanh."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"unknown approximate: {approximate}")
    kind = x.dtype.type
    if approximate == "tanh":
        inner = kind(sqrt(2 / pi)) * (x + kind(0.044715) * x * x * x)
        return np.asarray(kind(0.5) * x * (1 + np.tanh(inner)))
    return np.asarray(kind(0.5) * x * (1 + error_function(x / kind(sqrt(2)))))
