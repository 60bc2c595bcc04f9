"""The op and."""

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
def and_(a: Array, b: Array) -> Array:
    """Whether both are true."""
    return np.logical_and(a, b)
