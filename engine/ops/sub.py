"""The op sub."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import binary_cases, elementwise


@elementwise(*binary_cases(), *binary_cases("int64")[:4])
def sub(a: Array, b: Array) -> Array:
    """y = a - b."""
    return np.subtract(a, b)
