"""The op exp."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    case(np.array([-200, -20, 0, 20, 80, 200], np.float32)),
    dtypes=FLOATS,
    traits=Traits(non_negative=True),
)
def exp(x: Array) -> Array:
    """y = e ** x."""
    return np.exp(x)
