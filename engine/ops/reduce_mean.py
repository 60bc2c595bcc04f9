"""The op reduce_mean."""

from typing import Any

from palmkit.engine.ir import Array
from palmkit.engine.ops.reduction import mean, reduction, reduction_cases
from palmkit.engine.ops.traits import Traits


@reduction(*reduction_cases(), traits=Traits(keeps_sign=True, worth_integers=True))
def reduce_mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The mean over the axes."""
    return mean(x, axes, keepdims)
