"""The op equal."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import ALL
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases("int64"),
    *binary_cases(),
    case((7,), (7,), dtype="bool"),
    dtypes=ALL,
    result="bool",
    traits=Traits(commutative=True),
)
def equal(a: Array, b: Array) -> Array:
    """Whether a = b."""
    return np.equal(a, b)
