"""The op arg_min."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.arg_extreme import arg_extreme


@arg_extreme
def arg_min(x: Array, axis: int, keepdims: bool) -> Array:
    """The index of the minimum along the axis; of equal ones the first, or the last if asked."""
    return np.asarray(x.argmin(axis, keepdims=keepdims))
