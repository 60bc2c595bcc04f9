"""The op tile."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, repeats: Type) -> Type:
    value = known_integers(repeats, "tile: repeats").tolist()
    if len(value) != len(x.shape):
        raise ShapeError(f"tile: expected {len(x.shape)} repeats for {x}, got {value}")
    return Type(x.dtype, tuple(dim * n for dim, n in zip(x.dims, value, strict=True)))


@op(
    _infer,
    case((2, 3), np.array([2, 1])),
    case((2, 3), np.array([1, 4])),
    case((1, 2, 3), np.array([3, 2, 2])),
    case((2,), np.array([0])),
    case((2,), np.array([3]), dtype="int64"),
    traits=Traits(movement=Movement.PICKS),
)
def tile(x: Array, repeats: Array) -> Array:
    """x repeated along each axis."""
    return np.tile(x, repeats.tolist())
