"""The op sigmoid."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise, unary_cases
from palmkit.engine.ops.traits import Traits


@elementwise(
    *unary_cases(),
    case(np.array([-200, -20, 0, 20, 200], np.float32)),
    dtypes=FLOATS,
    traits=Traits(activation=(), non_negative=True, worth_integers=True),
)
def sigmoid(x: Array) -> Array:
    """y = 1 / (1 + exp(-x))."""
    return np.asarray(1 / (1 + np.exp(-x)))
