"""The op mod."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.elementwise import elementwise

_A, _B = np.array([7, -7, 7, -7, 6, 0]), np.array([2, 2, -2, -2, -3, 5])


@elementwise(
    case((2, 3, 4), np.array([[3], [-4], [7]]), dtype="int64"),
    case((4,), np.array(5, np.uint8), dtype="uint8"),
    case(_A, _B),
    case(_A, _B, fmod=1),
    case((3, 70), (3, 70), fmod=1),
    case((2, 3), (3,), fmod=1),
)
def mod(a: Array, b: Array, *, fmod: int = 0) -> Array:
    """The remainder of a / b, with the sign of b, or with that of a if fmod is set."""
    return np.fmod(a, b) if fmod else np.mod(a, b)
