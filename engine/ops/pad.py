"""The op pad."""

from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import known_integers, need_dtype, need_one, positive_axes
from palmkit.engine.ops.traits import Family, Traits

MODES = ("constant", "edge", "reflect", "wrap")


def amounts(x: Type, pads: Array, axes: Array | None = None) -> list[tuple[int, int]]:
    """Return how much to add before and after each axis of x; negative amounts cut."""
    rank = len(x.shape)
    which = tuple(range(rank))
    if axes is not None:
        which = positive_axes("pad", axes.tolist(), x)
    if pads.shape != (2 * len(which),):
        raise ShapeError(f"pad: expected 2 pads for each of {len(which)} axes, got {pads.tolist()}")
    found = [(0, 0)] * rank
    for i, axis in enumerate(which):
        found[axis] = (int(pads[i]), int(pads[i + len(which)]))
    return found


def _infer(
    x: Type,
    pads: Type,
    constant_value: Type | None = None,
    axes: Type | None = None,
    *,
    mode: str,
) -> Type:
    if mode not in MODES:
        raise ValueError(f"unknown mode: {mode}")
    if constant_value is not None:
        need_dtype("pad", x, constant_value, among=(x.dtype,))
        need_one("pad: constant_value", constant_value)
    chosen = None if axes is None else known_integers(axes, "pad: axes")
    both = amounts(x, known_integers(pads, "pad: pads"), chosen)
    for dim, (before, after) in zip(x.dims, both, strict=True):
        if dim + min(before, 0) + min(after, 0) < 0:
            raise ShapeError(f"pad: cannot cut {(before, after)} off {dim}: {x}")
        kept = dim + min(before, 0) + min(after, 0)
        if mode != "constant" and not kept and max(before, after) > 0:
            raise ShapeError(f"pad: nothing to fill {(before, after)} with at an empty axis: {x}")
        if mode == "reflect" and max(before, after, 0) > max(kept - 1, 0):
            raise ShapeError(f"pad: cannot reflect {(before, after)} at {dim}: {x}")
    dims = (dim + sum(both) for dim, both in zip(x.dims, both, strict=True))
    return Type(x.dtype, tuple(dims))


_SPATIAL = np.array([0, 0, 1, 2, 0, 0, 3, 0])


@op(
    _infer,
    case((1, 3, 5, 4), _SPATIAL),
    case((1, 3, 5, 4), _SPATIAL, np.array(1.5, np.float32)),
    case((1, 3, 5, 4), np.array([0, 0, 0, 0, 0, 13, 0, 0])),
    case((1, 3, 5, 4), np.array([1, 2, 3, 0]), None, np.array([2, -1])),
    case((1, 3, 5, 4), _SPATIAL, mode="reflect"),
    case((1, 3, 5, 4), _SPATIAL, mode="edge"),
    case((1, 3, 5, 4), _SPATIAL, mode="wrap"),
    case((5, 4), np.array([-1, 2, 0, -2])),
    case((5, 4), np.array([-1, 1, 2, -1]), mode="edge"),
    case((5,), np.array([0, 0])),
    case((0, 3), np.array([1, 0, 1, 0])),
    case((2, 3), np.array([1, 0, 0, 1]), dtype="int64"),
    traits=Traits(family=Family.MOVEMENT),
)
def pad(
    x: Array,
    pads: Array,
    constant_value: Array | None = None,
    axes: Array | None = None,
    *,
    mode: str = "constant",
) -> Array:
    """x with `pads` (all befores, then all afters) added round it; negative ones cut first."""
    both = amounts(Type.of(x), pads, axes)
    x = x[tuple(slice(max(0, -b), d - max(0, -a)) for d, (b, a) in zip(x.shape, both, strict=True))]
    added = [(max(0, before), max(0, after)) for before, after in both]
    if mode == "constant":
        value = 0 if constant_value is None else constant_value.item()
        return np.pad(x, added, constant_values=value)
    extend: Any = np.pad
    return np.asarray(extend(x, added, mode))
