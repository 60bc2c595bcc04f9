"""atan2: TFLite's ATAN2 (tensorflow/lite/kernels/atan2.cc)."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import binary_cases, elementwise


@elementwise(*binary_cases(), dtypes=FLOATS)
def atan2(y: Array, x: Array) -> Array:
    """The angle of the point (x, y), in -pi..pi."""
    return np.asarray(np.arctan2(y, x))
