"""The op bit_shift."""

import numpy as np

from palmkit.engine.ir import Array
from palmkit.engine.ops import case
from palmkit.engine.ops.dtypes import INTEGERS
from palmkit.engine.ops.elementwise import elementwise

_X, _Y = np.array([16, 4, 1, 255], np.uint8), np.array([1, 2, 7, 8], np.uint8)


@elementwise(
    case(_X, _Y, direction="LEFT"),
    case(_X, _Y, direction="RIGHT"),
    case((2, 3), np.array([0, 1, 31], np.uint32), dtype="uint32", direction="LEFT"),
    case(np.array([1, 2**63], np.uint64), np.array([63], np.uint64), direction="RIGHT"),
    dtypes=INTEGERS,
)
def bit_shift(x: Array, y: Array, *, direction: str) -> Array:
    """The bits of x moved by y places, LEFT or RIGHT; zeros come in, or the sign on the left."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"unknown direction: {direction}")
    moved = np.left_shift(x, y) if direction == "LEFT" else np.right_shift(x, y)
    outside = np.right_shift(x, 8 * x.dtype.itemsize - 1) if direction == "RIGHT" else 0
    if x.dtype.kind == "u":
        outside = x.dtype.type(0)
    return np.where(y < 8 * x.dtype.itemsize, moved, outside)
