"""The op reduce_min."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import ALL, highest
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases(), case((2, 3), dtype="int64"), dtypes=ALL)
def reduce_min(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The minimum over the axes; over no elements, the largest value of the dtype."""
    return np.min(x, axes, keepdims=keepdims, initial=highest(x.dtype.name))
