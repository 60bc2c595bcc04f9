"""The op sqrt."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    case(np.array([0, 0.25, 2, 9], np.float32)),
    dtypes=FLOATS,
    traits=Traits(non_negative=True),
)
def sqrt(x: Array) -> Array:
    """The square root; NaN below zero."""
    return np.sqrt(x)
