"""The op abs."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(), *unary_cases("int32")[:2], traits=Traits(idempotent=True, non_negative=True)
)
def abs_(x: Array) -> Array:
    """y = |x|."""
    return np.absolute(x)
