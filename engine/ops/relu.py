"""The op relu."""

from math import inf

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    *unary_cases("int32")[:2],
    traits=Traits(
        idempotent=True, bounds=(0.0, inf), non_negative=True, homogeneous=True, worth_integers=True
    ),
)
def relu(x: Array) -> Array:
    """y = max(x, 0)."""
    return np.maximum(x, 0)
