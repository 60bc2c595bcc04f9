"""The op cum_prod."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.cumulation import cumulation


@cumulation(1)
def cum_prod(x: Array, axis: int) -> Array:
    """The product of the elements up to each along the axis.

    exclusive: without the element itself. reverse: from the end on.
    """
    return np.cumprod(x, axis)
