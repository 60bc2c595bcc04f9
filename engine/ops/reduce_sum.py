"""The op reduce_sum."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.reduction import reduction, reduction_cases
from palmkit.engine.ops.traits import Traits


@reduction(
    *reduction_cases(),
    case((0, 3), np.array([0])),
    case((2, 3), dtype="int64"),
    traits=Traits(keeps_sign=True),
)
def reduce_sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The sum over the axes."""
    return np.sum(x, axes, keepdims=keepdims)
