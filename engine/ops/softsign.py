"""The op softsign."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(*unary_cases(), dtypes=FLOATS, traits=Traits(family=Family.ACTIVATION))
def softsign(x: Array) -> Array:
    """y = x / (1 + |x|)."""
    return np.asarray(x / (1 + np.absolute(x)))
