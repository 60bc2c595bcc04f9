"""The op mul."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases(),
    *binary_cases("int64")[:4],
    traits=Traits(commutative=True, worth_integers=True),
)
def mul(a: Array, b: Array) -> Array:
    """y = a * b."""
    return np.multiply(a, b)
