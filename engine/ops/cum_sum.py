"""The op cum_sum."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.cumulation import cumulation


@cumulation(0)
def cum_sum(x: Array, axis: int) -> Array:
    """The sum of the elements up to each along the axis.

    exclusive: without the element itself. reverse: from the end on.
    """
    return np.cumsum(x, axis)
