"""The op slice."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers, positive_axes
from palmkit.engine.ops.traits import Movement, Traits


def cuts(
    x: Type, starts: Array, ends: Array, axes: Array | None, steps: Array | None
) -> tuple[slice, ...]:
    """Return the Python slice of each axis of x; an end of -1 in a backward slice is None."""
    rank = len(x.shape)
    which = np.arange(len(starts)) if axes is None else axes
    strides = np.ones(len(starts), np.int64) if steps is None else steps
    found = [slice(None)] * rank
    order = positive_axes("slice", which.tolist(), x)
    for axis, start, end, step in zip(order, starts, ends, strides, strict=True):
        first, last, stride = slice(int(start), int(end), int(step)).indices(x.dims[axis])
        if first < 0:
            # Before the first element: ONNX goes back from the first, Python from the last.
            first, last = 0, last if x.dims[axis] else 0
        found[axis] = slice(first, None if last < 0 else last, stride)
    return tuple(found)


def _infer(
    x: Type, starts: Type, ends: Type, axes: Type | None = None, steps: Type | None = None
) -> Type:
    found = cuts(
        x,
        known_integers(starts, "slice: starts"),
        known_integers(ends, "slice: ends"),
        None if axes is None else known_integers(axes, "slice: axes"),
        None if steps is None else known_integers(steps, "slice: steps"),
    )
    lengths = (len(range(*cut.indices(dim))) for cut, dim in zip(found, x.dims, strict=True))
    return Type(x.dtype, tuple(lengths))


@op(
    _infer,
    case((5, 7), np.array([1, 2]), np.array([4, 7])),
    case((1, 3, 9, 8), np.array([0, 1]), np.array([9, 8]), np.array([2, 3]), np.array([2, 3])),
    case((5, 7), np.array([-3]), np.array([-1]), np.array([-1])),
    case((5, 7), np.array([1]), np.array([2**63 - 1]), np.array([0])),
    case((5, 7), np.array([-1]), np.array([-(2**63)]), np.array([1]), np.array([-1])),
    case((5, 7), np.array([-99]), np.array([-(2**63)]), np.array([1]), np.array([-1])),
    case((5, 7), np.array([-99]), np.array([2]), np.array([1]), np.array([-1])),
    case((9,), np.array([7]), np.array([1]), np.array([0]), np.array([-2])),
    case((5, 7), np.array([3]), np.array([2]), np.array([1])),
    case((5, 7), np.array([20]), np.array([30]), np.array([1])),
    case((4, 6), np.array([1], np.int32), np.array([3], np.int32), np.array([1], np.int32)),
    case((6,), np.array([1]), np.array([3]), dtype="int64"),
    traits=Traits(movement=Movement.PICKS),
)
def slice_(
    x: Array,
    starts: Array,
    ends: Array,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """x[start:end:step] along each of the axes, as Python slices."""
    return x[cuts(Type.of(x), starts, ends, axes, steps)]
