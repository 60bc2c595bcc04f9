"""The op reduce_sum_square."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases(), case((2, 3), dtype="int64"))
def reduce_sum_square(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The sum of the squares over the axes."""
    return np.sum(np.square(x), axes, keepdims=keepdims)
