"""The op neg."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS, SIGNED
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases("int32")[:2],
    dtypes=FLOATS + SIGNED,
    traits=Traits(self_inverse=True),
)
def neg(x: Array) -> Array:
    """y = -x."""
    return np.negative(x)
