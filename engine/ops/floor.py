"""The op floor."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases(), dtypes=FLOATS, traits=Traits(idempotent=True))
def floor(x: Array) -> Array:
    """The largest integer that is not above x."""
    return np.floor(x)
