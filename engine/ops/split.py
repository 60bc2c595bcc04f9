"""The op split."""

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, case, op
from palmkit.engine.ops.rules import known_integers, positive_axis
from palmkit.engine.ops.traits import Movement, Traits


def _sizes(dim: int, split: Array | None, num_outputs: int) -> Sequence[int]:
    """Return the lengths of the pieces; by default equal ones but for the last."""
    if split is not None:
        return [int(size) for size in split]
    piece = -(-dim // num_outputs)
    return [*[piece] * (num_outputs - 1), dim - piece * (num_outputs - 1)]


def _infer(x: Type, split: Type | None = None, *, axis: int, num_outputs: int) -> tuple[Type, ...]:
    axis = positive_axis("split", axis, x)
    value = None if split is None else known_integers(split, "split: split")
    if value is None and not 1 <= num_outputs <= max(1, x.dims[axis]):
        raise ShapeError(f"split: cannot cut axis {axis} of {x} into {num_outputs} pieces")
    sizes = _sizes(x.dims[axis], value, num_outputs)
    if sum(sizes) != x.dims[axis] or min(sizes) < 0:
        raise ShapeError(f"split: cannot cut axis {axis} of {x} into {sizes}")
    return tuple(Type(x.dtype, (*x.dims[:axis], size, *x.dims[axis + 1 :])) for size in sizes)


@op(
    _infer,
    case((1, 8, 3, 5), axis=1, num_outputs=2, outputs=2),
    case((7, 2), num_outputs=3, outputs=3),
    case((2, 19), np.array([3, 0, 16]), axis=-1, outputs=3),
    case((2, 6, 4), np.array([2, 4]), axis=1, outputs=2),
    case((6,), np.array([6]), outputs=1),
    traits=Traits(movement=Movement.PICKS),
)
def split(x: Array, split: Array | None = None, *, axis: int = 0, num_outputs: int = 0) -> Results:
    """x cut along the axis into pieces of the lengths `split`, or into num_outputs equal ones."""
    sizes = _sizes(x.shape[axis], split, num_outputs)
    return tuple(np.split(x, np.cumsum(sizes[:-1], dtype=np.int64), axis))
