"""The op multiply_add."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.ops.elementwise import elementwise


@elementwise(
    case((1, 19, 5, 7), (1, 19, 1, 1), (1, 19, 5, 7)),
    case((2, 16, 5, 7), (2, 16, 1, 1), (2, 16, 5, 7)),
    case((3, 70), (3, 70), (3, 70)),
    case((3, 70), (3, 1), (70,)),
    case((4, 1), (1, 3), (4, 3)),
    case((2, 3), (), (3,)),
    case((0, 3), (3,), (0, 3)),
    case((1, 8, 5, 4), np.linspace(-2, 3, 8, dtype=np.float32).reshape(8, 1, 1), (1, 8, 5, 4)),
    dtypes=FLOATS,
)
def multiply_add(a: Array, b: Array, z: Array) -> Array:
    """y = a * b + z, rounded once or twice."""
    return np.asarray(a * b + z)
