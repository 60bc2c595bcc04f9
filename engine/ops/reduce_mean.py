"""reduce_mean."""

from typing import Any

from palmkit.engine.ir import Array
from palmkit.engine.ops.reduction import mean, reduction, reduction_cases


@reduction(*reduction_cases())
def reduce_mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The mean over the axes."""
    return mean(x, axes, keepdims)
