"""The op center_crop_pad."""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers, positive_axes
from palmkit.engine.ops.traits import Family, Traits


def _target(x: Type, shape: Array, axes: tuple[int, ...] | None) -> tuple[int, ...]:
    chosen = range(len(x.shape)) if axes is None else positive_axes("center_crop_pad", axes, x)
    if shape.shape != (len(chosen),) or (shape < 0).any():
        raise ShapeError(f"center_crop_pad: {shape.tolist()} is no shape of {len(chosen)} axes")
    dims = list(x.dims)
    for axis, dim in zip(chosen, shape.tolist(), strict=True):
        dims[axis] = dim
    return tuple(dims)


def _infer(x: Type, shape: Type, *, axes: tuple[int, ...] | None) -> Type:
    if axes is not None:
        positive_axes("center_crop_pad", axes, x)
    return Type(x.dtype, _target(x, known_integers(shape, "center_crop_pad: shape"), axes))


@op(
    _infer,
    case((20, 10, 3), np.array([10, 7, 3])),
    case((10, 7, 3), np.array([20, 10, 3])),
    case((5, 8), np.array([8, 5])),
    case((3, 20, 10), np.array([10, 13]), axes=(-2, -1)),
    case((5, 8), np.array([6]), axes=(1,), dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def center_crop_pad(x: Array, shape: Array, *, axes: tuple[int, ...] | None = None) -> Array:
    """The middle of x, padded with zeros where it is too small; an odd rest goes to the end."""
    dims = _target(Type.of(x), shape, axes)
    y = np.zeros(dims, x.dtype)
    pairs = list(zip(x.shape, dims, strict=True))
    source = tuple(slice((a - b) // 2, (a - b) // 2 + b) if a > b else slice(a) for a, b in pairs)
    place = tuple(slice((b - a) // 2, (b - a) // 2 + a) if b > a else slice(b) for a, b in pairs)
    y[place] = x[source]
    return y
