"""The op transpose."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, *, perm: tuple[int, ...]) -> Type:
    rank = len(x.shape)
    perm = perm or tuple(reversed(range(rank)))
    if sorted(perm) != list(range(rank)):
        raise ShapeError(f"transpose: {perm} is not a permutation of the axes of {x}")
    return Type(x.dtype, tuple(x.dims[axis] for axis in perm))


@op(
    _infer,
    case((1, 19, 5, 7), perm=(0, 2, 3, 1)),
    case((1, 5, 7, 19), perm=(0, 3, 1, 2)),
    case((2, 3, 4)),
    case((2, 3, 4), perm=(1, 0, 2)),
    case((2, 3, 4), perm=(0, 1, 2)),
    case((7,)),
    case((0, 3)),
    case((2, 3), dtype="int64"),
    traits=Traits(movement=Movement.TRANSPOSES),
)
def transpose(x: Array, *, perm: tuple[int, ...] = ()) -> Array:
    """Axis i of the output is axis perm[i] of x; the axes reversed if perm is not given."""
    return np.transpose(x, perm or None)
