"""The op hard_swish."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    case(np.linspace(-5, 5, 41, dtype=np.float32)),
    dtypes=FLOATS,
    traits=Traits(activation=(), worth_integers=True),
)
def hard_swish(x: Array) -> Array:
    """y = x * max(0, min(1, x / 6 + 1 / 2))."""
    return np.asarray(x * np.clip(x / 6 + x.dtype.type(0.5), 0, 1))
