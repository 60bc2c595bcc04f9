"""reduce_mean."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.reduction import reduction, reduction_cases


@reduction(*reduction_cases())
def reduce_mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The mean over the axes."""
    return np.mean(x, axes, keepdims=keepdims)
