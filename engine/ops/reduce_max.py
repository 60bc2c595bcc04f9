"""The op reduce_max."""

from typing import Any

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import ALL, lowest
from palmkit.engine.ops.reduction import reduction, reduction_cases
from palmkit.engine.ops.traits import Traits


@reduction(
    *reduction_cases(), case((2, 3), dtype="int64"), dtypes=ALL, traits=Traits(keeps_sign=True)
)
def reduce_max(x: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The maximum over the axes; over no elements, the smallest value of the dtype."""
    return np.max(x, axes, keepdims=keepdims, initial=lowest(x.dtype.name))
