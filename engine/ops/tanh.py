"""The op tanh."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases(), dtypes=FLOATS, traits=Traits(activation=(), worth_integers=True))
def tanh(x: Array) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(x)
