"""The op bitwise_and."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.dtypes import INTEGERS
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases("int32"),
    *binary_cases("uint8")[:3],
    dtypes=INTEGERS,
    traits=Traits(commutative=True),
)
def bitwise_and(a: Array, b: Array) -> Array:
    """The bits that are set in both."""
    return np.bitwise_and(a, b)
