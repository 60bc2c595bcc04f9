"""The op thresholded_relu."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Family, Traits


@elementwise(
    *unary_cases(), *unary_cases(alpha=0.25), dtypes=FLOATS, traits=Traits(family=Family.ACTIVATION)
)
def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    """y = x where x > alpha, else 0."""
    return np.where(x > alpha, x, x.dtype.type(0))
