"""The op expand."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import broadcast, known_integers
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, shape: Type) -> Type:
    wanted = tuple(known_integers(shape, "expand: shape").tolist())
    return Type(x.dtype, broadcast("expand", x, Type(x.dtype, wanted)))


@op(
    _infer,
    case((3, 1), np.array([3, 4])),
    case((3, 1), np.array([2, 1, 6])),
    case((3, 4), np.array([1])),
    case((), np.array([2, 3])),
    case((1,), np.array([0])),
    case((1,), np.array([3]), dtype="int64"),
    traits=Traits(movement=Movement.PICKS),
)
def expand(x: Array, shape: Array) -> Array:
    """x broadcast with the shape; where that has a 1, the dim of x stays."""
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))).copy()
