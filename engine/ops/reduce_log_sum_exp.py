"""The op reduce_log_sum_exp."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import is_float
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases(), case((2, 3), dtype="int64"))
def reduce_log_sum_exp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The logarithm of the sum of the exponentials over the axes."""
    if not x.size:
        return np.log(np.sum(x, axes, keepdims=keepdims))
    floats = x if is_float(x) else x.astype(np.float64)
    top = np.max(floats, axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    found = np.log(np.sum(np.exp(floats - top), axes, keepdims=True)) + top
    return found if keepdims else found.reshape(np.sum(x, axes).shape)
