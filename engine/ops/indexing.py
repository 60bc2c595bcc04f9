"""Helpers shared by the ops that gather from indices and scatter to them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Known, Type
from palmkit.engine.ops.rules import need_dtype

INDICES = ("int32", "int64")
REDUCTIONS = ("none", "add", "mul", "max", "min")


def along_axis(indices: Array, axis: int) -> tuple[Array, ...]:
    """Return the numpy index of each element's own place, but `indices` along the axis."""
    index = list(np.ix_(*map(np.arange, indices.shape)))
    index[axis] = indices
    return tuple(index)


def need_reduction(reduction: str) -> None:
    """Raise ValueError for a name that is none of REDUCTIONS."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"unknown reduction: {reduction}")


def need_elements(op: str, x: Type, indices: Type, axis: int, updates: Type | None = None) -> None:
    """Raise ShapeError unless `indices` name places in x along the axis, one for each update."""
    need_dtype(op, indices, among=INDICES)
    if len(indices.shape) != len(x.shape):
        raise ShapeError(f"{op}: expected indices of the rank of {x}, got {indices}")
    if any(
        n > dim for i, (n, dim) in enumerate(zip(indices.dims, x.dims, strict=True)) if i != axis
    ):
        raise ShapeError(f"{op}: {indices} is larger than {x} beside axis {axis}")
    if updates is not None:
        need_dtype(op, x, updates, among=(x.dtype,))
        if updates.dims != indices.dims:
            raise ShapeError(f"{op}: expected updates of the shape of {indices}, got {updates}")
    need_places(op, indices, x.dims[axis : axis + 1])


def need_places(op: str, indices: Type, dims: Sequence[int]) -> None:
    """Raise ShapeError for a constant index outside of its axis; of others only a run knows.

    dims: the size of the one axis that all indices are for, or of the axis of each index of a row.
    """
    if not isinstance(indices, Known) or not indices.elements:
        return
    rows = indices.value.reshape(-1, len(dims))
    for low, high, dim in zip(rows.min(axis=0), rows.max(axis=0), dims, strict=True):
        if low < -dim or high >= dim:
            index = low if low < -dim else high
            raise ShapeError(f"{op}: index {index} is outside of an axis of {dim}")


def scattered(x: Array, index: Sequence[Array], updates: Array, reduction: str) -> Array:
    """Return a copy of x with the updates written to the index, or reduced with its elements."""
    y = x.copy()
    place: Any = tuple(index)
    match reduction:
        case "none":
            y[place] = updates
        case "add":
            np.add.at(y, place, updates)
        case "mul":
            np.multiply.at(y, place, updates)
        case "max":
            np.maximum.at(y, place, updates)
        case _:
            np.minimum.at(y, place, updates)
    return y
