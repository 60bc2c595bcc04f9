"""The op sum."""

from functools import reduce

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import binary_cases, elementwise
from palmkit.engine.ops.traits import Traits


@elementwise(
    *binary_cases(),
    case((3, 4)),
    case((3, 4), (4,), (3, 1)),
    dtypes=FLOATS,
    traits=Traits(commutative=True),
)
def sum_(*inputs: Array) -> Array:
    """The sum of one or more inputs."""
    return reduce(np.add, inputs)
