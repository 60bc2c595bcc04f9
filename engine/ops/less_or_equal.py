"""The op less_or_equal."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import binary_cases, elementwise


@elementwise(*binary_cases(), *binary_cases("int64")[:4], result="bool")
def less_or_equal(a: Array, b: Array) -> Array:
    """Whether a <= b."""
    return np.less_equal(a, b)
