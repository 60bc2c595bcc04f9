"""The op reduce_l2."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases())
def reduce_l2(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The square root of the sum of squares over the axes."""
    return np.sqrt(np.sum(np.square(x), axes, keepdims=keepdims))
