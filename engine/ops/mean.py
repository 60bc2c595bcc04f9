"""The op mean."""

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
def mean(*inputs: Array) -> Array:
    """The mean of one or more inputs."""
    return np.asarray(reduce(np.add, inputs) / inputs[0].dtype.type(len(inputs)))
