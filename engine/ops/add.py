"""The op add."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases(),
    *binary_cases("int64")[:4],
    traits=Traits(commutative=True, homogeneous=True, worth_integers=True),
)
def add(a: Array, b: Array) -> Array:
    """y = a + b."""
    return np.add(a, b)
