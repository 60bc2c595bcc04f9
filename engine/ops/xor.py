"""The op xor."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.elementwise import elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    case((7,), (7,), dtype="bool"),
    case((2, 3, 4), (3, 1), dtype="bool"),
    dtypes=("bool",),
    traits=Traits(commutative=True),
)
def xor(a: Array, b: Array) -> Array:
    """Whether just one of the two is true."""
    return np.logical_xor(a, b)
