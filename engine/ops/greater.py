"""The op greater."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import binary_cases, elementwise


@elementwise(*binary_cases(), *binary_cases("int64")[:4], result="bool")
def greater(a: Array, b: Array) -> Array:
    """Whether a > b."""
    return np.greater(a, b)
