"""The op squeeze."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers, positive_axes
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, axes: Type | None = None) -> Type:
    if axes is None:
        return Type(x.dtype, tuple(dim for dim in x.dims if dim != 1))
    gone = positive_axes("squeeze", known_integers(axes, "squeeze: axes").reshape(-1).tolist(), x)
    if any(x.dims[axis] != 1 for axis in gone):
        raise ShapeError(f"squeeze: expected a dim of 1 at {gone}, got {x}")
    return Type(x.dtype, tuple(dim for axis, dim in enumerate(x.dims) if axis not in gone))


@op(
    _infer,
    case((1, 3, 1, 5), np.array([0])),
    case((1, 3, 1, 5), np.array([-2, 0])),
    case((1, 3, 1, 5)),
    case((1, 1), np.array([0, 1])),
    traits=Traits(movement=Movement.RESHAPES),
)
def squeeze(x: Array, axes: Array | None = None) -> Array:
    """x without those axes, each of size 1; without all such axes if none are given."""
    return np.squeeze(x, None if axes is None else tuple(axes.reshape(-1).tolist()))
