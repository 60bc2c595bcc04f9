"""Builder of the ops that reduce axes to one number each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, Op, case, op
from palmkit.engine.ops.dtypes import NUMBERS, wide
from palmkit.engine.ops.rules import known_integers, need_dtype, positive_axes
from palmkit.engine.ops.traits import PLAIN, Traits

Reduction = Callable[[Array, tuple[int, ...], bool], Any]


def reduced_axes(rank: int, axes: Array | None, noop_with_empty_axes: int) -> tuple[int, ...]:
    """Return the axes to reduce: those given; without any, all, or none if that flag is set."""
    if axes is not None and axes.size:
        return tuple(axes.reshape(-1).tolist())
    return () if noop_with_empty_axes else tuple(range(rank))


def reduced_shape(dims: Sequence[int], axes: Sequence[int], keepdims: int) -> tuple[int, ...]:
    """Return the shape after the reduction."""
    return tuple(1 if i in axes else dim for i, dim in enumerate(dims) if keepdims or i not in axes)


def mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the mean over the axes; NaN over no elements, without numpy's warning."""
    if 0 in (x.shape[axis] for axis in axes):
        return np.asarray(np.sum(x, axes, keepdims=keepdims) + np.nan)
    return np.asarray(np.mean(x, axes, keepdims=keepdims))


def reduction(
    *cases: Case, dtypes: Sequence[str] = NUMBERS, traits: Traits = PLAIN
) -> Callable[[Reduction], Op]:
    """Register the decorated numpy function of (x, axes, keepdims).

    traits: traits besides reducing.
    """

    def register(reference: Reduction) -> Op:
        name = reference.__name__

        def infer(
            x: Type, axes: Type | None = None, *, keepdims: int, noop_with_empty_axes: int
        ) -> Type:
            need_dtype(name, x, among=dtypes)
            value = None if axes is None else known_integers(axes, f"{name}: axes")
            chosen = reduced_axes(len(x.shape), value, noop_with_empty_axes)
            kept = reduced_shape(x.dims, positive_axes(name, chosen, x), keepdims)
            return Type(x.dtype, kept)

        def meaning(
            x: Array, axes: Array | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
        ) -> Array:
            chosen = reduced_axes(x.ndim, axes, noop_with_empty_axes)
            y = np.asarray(reference(wide(x), chosen, bool(keepdims)))
            return y.astype(x.dtype, copy=False)

        meaning.__name__, meaning.__doc__ = name, reference.__doc__
        return op(infer, *cases, traits=replace(traits, reduces=True))(meaning)

    return register


def reduction_cases() -> tuple[Case, ...]:
    """Return cases with the axes that a reduction should be tested with."""
    return (
        case((3, 70)),
        case((3, 70), keepdims=0),
        case(()),
        case((2, 3, 4), np.array([1]), keepdims=0),
        case((2, 3, 4), np.array([-1])),
        case((1, 8, 5, 7), np.array([2, 3])),
        case((2, 8, 5, 7), np.array([3, 2]), keepdims=0),
        case((1, 8, 5, 7), np.array([1])),
        case((2, 3), np.array([], np.int64)),
        case((2, 3), noop_with_empty_axes=1),
    )
