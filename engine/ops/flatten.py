"""The op flatten."""

from math import prod

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.traits import Movement, Traits


def _infer(x: Type, *, axis: int) -> Type:
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise ShapeError(f"flatten: axis {axis} is outside of {x}")
    axis += rank if axis < 0 else 0
    return Type(x.dtype, (prod(x.dims[:axis]), prod(x.dims[axis:])))


@op(
    _infer,
    case((2, 3, 4)),
    case((2, 3, 4), axis=0),
    case((2, 3, 4), axis=3),
    case((2, 3, 4), axis=-1),
    case((5,)),
    case((0, 3)),
    traits=Traits(movement=Movement.RESHAPES),
)
def flatten(x: Array, *, axis: int = 1) -> Array:
    """x as a matrix: the axes before `axis` are the rows, the others the columns."""
    axis += x.ndim if axis < 0 else 0
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))
