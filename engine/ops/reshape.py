"""The op reshape."""

from collections.abc import Sequence
from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers
from palmkit.engine.ops.traits import Movement, Traits


def _resolve(x: Type, shape: Sequence[int], allowzero: int) -> tuple[int, ...]:
    """Return the new dims: 0 keeps the dim of x unless allowzero, one -1 is computed."""
    dims = [x.dims[i] if dim == 0 and not allowzero else int(dim) for i, dim in enumerate(shape)]
    rest = prod(dim for dim in dims if dim != -1)
    if dims.count(-1) == 1 and rest:
        dims[dims.index(-1)] = x.elements // rest
    if min(dims, default=0) < 0 or prod(dims) != x.elements:
        raise ShapeError(f"reshape: cannot make {list(map(int, shape))} of {x}")
    return tuple(dims)


def _infer(x: Type, shape: Type, *, allowzero: int) -> Type:
    return Type(x.dtype, _resolve(x, known_integers(shape, "reshape: shape").tolist(), allowzero))


@op(
    _infer,
    case((2, 3, 4), np.array([4, 6])),
    case((2, 3, 4), np.array([0, -1])),
    case((2, 3, 4), np.array([-1])),
    case((2, 3, 4), np.array([2, 0, 2, -1])),
    case((1, 1), np.array([], np.int64)),
    case((0, 3), np.array([0, 5]), allowzero=1),
    case((0, 3), np.array([-1, 3])),
    case((6,), np.array([2, 3]), dtype="int64"),
    traits=Traits(movement=Movement.RESHAPES),
)
def reshape(x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """The elements of x, in their order, in another shape."""
    return x.reshape(_resolve(Type.of(x), shape.tolist(), allowzero))
