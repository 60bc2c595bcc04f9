"""The op reduce_l1."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases(), case((2, 3), dtype="int64"))
def reduce_l1(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The sum of the magnitudes over the axes."""
    return np.sum(np.absolute(x), axes, keepdims=keepdims)
