"""The op mish."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases(), dtypes=FLOATS, traits=Traits(activation=()))
def mish(x: Array) -> Array:
    """y = x * tanh(ln(1 + exp(x)))."""
    return np.asarray(x * np.tanh(np.logaddexp(x, x.dtype.type(0))))
