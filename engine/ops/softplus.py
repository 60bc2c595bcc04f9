"""The op softplus."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(
    *unary_cases(),
    case(np.array([-200, -20, 0, 20, 200], np.float32)),
    dtypes=FLOATS,
    traits=Traits(non_negative=True, family=Family.ACTIVATION),
)
def softplus(x: Array) -> Array:
    """y = log(1 + exp(x))."""
    return np.asarray(np.logaddexp(x.dtype.type(0), x))
