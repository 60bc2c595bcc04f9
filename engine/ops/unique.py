"""The op unique."""

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Results, Undetermined, case, op
from palmkit.engine.ops.rules import positive_axis


def _infer(x: Type, *, axis: int | None, sorted: int) -> tuple[Type, ...]:
    if axis is not None:
        positive_axis("unique", axis, x)
    raise Undetermined("unique: the number of results is known at run time only")


_SIX = np.array([2, 1, 1, 3, 4, 3], np.float32)
_ROWS = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)


@op(
    _infer,
    case(_SIX, outputs=4),
    case(_SIX, sorted=0, outputs=4),
    case(_ROWS, outputs=4),
    case(_ROWS, axis=0, outputs=4),
    case(_ROWS[::-1].copy(), axis=0, sorted=0, outputs=4),
    case(_ROWS, axis=-1, outputs=4),
    case(np.array([[3, 1], [3, -1]]), outputs=4),
)
def unique(x: Array, *, axis: int | None = None, sorted: int = 1) -> Results:
    """The distinct elements, or slices along the axis.

    Returns them, the first index of each, the number of the distinct element for each of x, and the
    count of each.
    sorted: 0 gives them in the order in which they occur first.
    """
    y, first, inverse, counts = np.unique(x, True, True, True, axis)
    if not sorted:
        order = np.argsort(first)
        y = y[order] if axis is None else np.take(y, order, axis)
        first, inverse, counts = first[order], np.argsort(order)[inverse], counts[order]
    return (y, *(each.reshape(-1).astype(np.int64) for each in (first, inverse, counts)))
