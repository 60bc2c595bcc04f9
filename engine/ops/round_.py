"""The op round."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits

_HALVES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)


@elementwise(*unary_cases(), case(_HALVES), dtypes=FLOATS, traits=Traits(idempotent=True))
def round_(x: Array) -> Array:
    """The nearest integer, ties to even."""
    return np.rint(x)
