"""The op not."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases("bool"), dtypes=("bool",), traits=Traits(self_inverse=True))
def not_(x: Array) -> Array:
    """Whether x is false."""
    return np.logical_not(x)
