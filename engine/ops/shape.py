"""The op shape."""

import numpy as np

from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.traits import Family, Traits


def _infer(x: Type, *, start: int, end: int | None) -> Type:
    return Known.of(np.array(x.dims[start:end], np.int64))


@op(
    _infer,
    case((2, 3, 4)),
    case(()),
    case((2, 3, 4), start=1),
    case((2, 3, 4), start=-2, end=-1),
    case((2, 3, 4), start=-9, end=9),
    case((2, 3, 4), start=2, end=1),
    traits=Traits(family=Family.MOVEMENT),
)
def shape(x: Array, *, start: int = 0, end: int | None = None) -> Array:
    """The dims of x, from axis `start` up to axis `end`."""
    return np.array(x.shape[start:end], np.int64)
