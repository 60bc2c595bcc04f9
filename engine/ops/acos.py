"""The op acos."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases


@elementwise(*unary_cases(), case(np.linspace(-1, 1, 19, dtype=np.float32)), dtypes=FLOATS)
def acos(x: Array) -> Array:
    """The angle, in radians, whose cosine is x; NaN outside of -1..1."""
    return np.arccos(x)
