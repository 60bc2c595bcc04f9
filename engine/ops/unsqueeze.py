"""The op unsqueeze."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers, positive_axes
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, axes: Type) -> Type:
    value = known_integers(axes, "unsqueeze: axes").reshape(-1).tolist()
    added = positive_axes("unsqueeze", value, x, extra=len(value))
    dims = iter(x.dims)
    rank = len(x.shape) + len(value)
    return Type(x.dtype, tuple(1 if axis in added else next(dims) for axis in range(rank)))


@op(
    _infer,
    case((3, 5), np.array([0])),
    case((3, 5), np.array([-1, 1])),
    case((3, 5), np.array([3, 0])),
    case((), np.array([0])),
    case((), np.array([0]), dtype="int64"),
    traits=Traits(movement=Movement.RESHAPES),
)
def unsqueeze(x: Array, axes: Array) -> Array:
    """x with axes of size 1 put in, counted in the output."""
    return np.expand_dims(x, tuple(axes.reshape(-1).tolist()))
