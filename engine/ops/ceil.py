"""The op ceil."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases(), dtypes=FLOATS, traits=Traits(idempotent=True))
def ceil(x: Array) -> Array:
    """The smallest integer that is not below x."""
    return np.ceil(x)
