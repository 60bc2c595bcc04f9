"""relu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), *unary_cases("int32")[:2])
def relu(x: Array) -> Array:
    """y = max(x, 0)."""
    return np.maximum(x, 0)
