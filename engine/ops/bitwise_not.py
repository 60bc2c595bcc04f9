"""The op bitwise_not."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import INTEGERS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases("int32"),
    *unary_cases("uint8")[:2],
    dtypes=INTEGERS,
    traits=Traits(self_inverse=True),
)
def bitwise_not(x: Array) -> Array:
    """Every bit of x inverted."""
    return np.invert(x)
