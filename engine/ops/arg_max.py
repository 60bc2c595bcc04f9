"""The op arg_max."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.arg_extreme import arg_extreme


@arg_extreme
def arg_max(x: Array, axis: int, keepdims: bool) -> Array:
    """The index of the maximum along the axis; of equal ones the first, or the last if asked."""
    return np.asarray(x.argmax(axis, keepdims=keepdims))
