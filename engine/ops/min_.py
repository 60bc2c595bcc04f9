"""The op min."""

from functools import reduce

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases(), case((3, 4)), case((3, 4), (4,), (3, 1)), traits=Traits(commutative=True)
)
def min_(*inputs: Array) -> Array:
    """The minimum of one or more inputs; NaN where one is NaN."""
    return reduce(np.minimum, inputs)
