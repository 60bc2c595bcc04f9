"""The op sign."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(*unary_cases(), *unary_cases("int32")[:2], traits=Traits(idempotent=True))
def sign(x: Array) -> Array:
    """-1, 0 or 1 for x below, at or above 0."""
    return np.sign(x)
