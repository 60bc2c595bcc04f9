"""Operators that pick, place, sort and count elements."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.rules.reductions import in_declared_dtype
from palmkit.engine.errors import ModelError
from palmkit.engine.ops.dtypes import highest, lowest


@rule("GATHER")
def _gather(b: Builder, o: Operator) -> None:
    x, indices = o.inputs
    axis = b.axis(o.option("Axis", 0), x)
    batch = b.axis(o.option("BatchDims", 0), indices, 1) if o.option("BatchDims", 0) else 0
    if not batch:
        b.finish(o, b.emit("gather", b.value(x), b.value(indices), axis=axis))
        return
    _gather_in_batches(b, o, axis, batch)


def _gather_in_batches(b: Builder, o: Operator, axis: int, batch: int) -> None:
    """Write gather_nd along the axis, moved behind the batch axes and back again."""
    x, indices = o.inputs
    if batch > axis:
        raise ModelError(f"node {b.current}: {o.op}: axis {axis} is one of {batch} batch axes")
    rank, picked = b.rank(x), b.rank(indices) - batch
    between = tuple(range(batch, axis))
    perm = (*range(batch), axis, *between, *range(axis + 1, rank))
    places = b.emit("unsqueeze", b.as_int64(indices), b.int64(-1))
    y = b.emit("gather_nd", b.emit("transpose", b.value(x), perm=perm), places, batch_dims=batch)
    start = batch + picked
    order = (
        *range(batch),
        *range(start, start + len(between)),
        *range(batch, start),
        *range(start + len(between), rank + picked - 1),
    )
    b.finish(o, b.emit("transpose", y, perm=order))


@rule("GATHER_ND")
def _gather_nd(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("gather_nd", b.value(o.inputs[0]), b.as_int64(o.inputs[1])))


@rule("EMBEDDING_LOOKUP")
def _embedding_lookup(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("gather", b.value(o.inputs[1]), b.value(o.inputs[0]), axis=0))


@rule("EMBEDDING_LOOKUP_SPARSE")
def _embedding_lookup_sparse(b: Builder, o: Operator) -> None:
    """Add weighted rows of a table where their first coordinates are the same.

    The combiner divides the sum by the sum of the weights (mean), or by the root of the sum of
    their squares.
    """
    ids, indices, shape, weights, table = o.inputs
    rows, factors = b.emit("gather", b.value(table), b.value(ids), axis=0), b.value(weights)
    rank, depth = b.static_shape(indices)[1], b.rank(table)
    places = b.emit("slice", b.as_int64(indices), b.int64(0), b.int64(rank - 1), b.int64(1))
    batch = b.emit("slice", b.as_int64(shape), b.int64(0), b.int64(rank - 1))

    def summed(x: str, *more: str) -> str:
        start = b.full(0, b.emit("concat", batch, *more, axis=0), "float32")
        return b.emit("scatter_nd", start, places, x, reduction="add")

    def wide(x: str) -> str:
        return b.emit("unsqueeze", x, b.int64(*range(-(depth - 1), 0)))

    y = summed(b.emit("mul", rows, wide(factors)), *b.dims(rows, depth)[1:])
    combiner = int(o.option("Combiner", 0))
    if combiner:
        norm = summed(factors if combiner == 1 else b.emit("mul", factors, factors))
        norm = norm if combiner == 1 else b.emit("sqrt", norm)
        norm = b.emit("where", b.emit("equal", norm, b.scalar(0)), b.scalar(1), norm)
        y = b.emit("div", y, wide(norm))
    b.finish(o, y)


@rule("HASHTABLE_LOOKUP")
def _hashtable_lookup(b: Builder, o: Operator) -> None:
    """Return the rows of the keys, zeros for missing keys, and which keys were found."""
    wanted, keys, rows = o.inputs
    same = b.emit("equal", b.emit("unsqueeze", b.value(wanted), b.int64(1)), b.value(keys))
    same = b.emit("cast", same, to="int32")
    found = b.emit("cast", b.emit("reduce_max", same, b.int64(1), keepdims=0), to="uint8")
    place = b.emit("arg_max", same, axis=1, keepdims=0)
    y = b.emit("gather", b.value(rows), place, axis=0)
    is_there = b.emit("cast", found, to="bool")
    rank = b.rank(rows)
    if rank > 1:
        is_there = b.emit("unsqueeze", is_there, b.int64(*range(1, rank)))
    b.finish(o, b.emit("where", is_there, y, b.scalar(0, b.dtype(rows))))
    b.finish_stored(o, b.emit("identity", found), 1)


@rule("SCATTER_ND")
def _scatter_nd(b: Builder, o: Operator) -> None:
    """Scatter updates; places that are named twice get the sum."""
    zeros = b.full(0, b.as_int64(o.inputs[2]), b.dtype(o.inputs[1]))
    places, updates = b.as_int64(o.inputs[0]), b.value(o.inputs[1])
    b.finish(o, b.emit("scatter_nd", zeros, places, updates, reduction="add"))


@rule("SPARSE_TO_DENSE")
def _sparse_to_dense(b: Builder, o: Operator) -> None:
    """Make a dense tensor; indices are a number, a list, or a row of coordinates a value."""
    indices, shape, values, default = o.inputs
    fill = b.emit("reshape", b.value(default), b.int64())
    dense = b.emit("expand", fill, b.as_int64(shape))
    rank = b.static_shape(indices)[1] if b.rank(indices) == 2 else 1
    places = b.emit("reshape", b.as_int64(indices), b.int64(-1, rank))
    (count, _) = b.dims(places, 2)
    updates = b.emit("expand", b.value(values), count)
    b.finish(o, b.emit("scatter_nd", dense, places, updates))


@rule("SEGMENT_SUM")
def _segment_sum(b: Builder, o: Operator) -> None:
    """Add up segments; the ids ascend, so the last one tells how many there are."""
    ids = b.as_int64(o.inputs[1])
    count = b.emit("add", b.emit("reduce_max", ids, b.int64(0), keepdims=1), b.int64(1))
    _segments(b, o, ids, count, "add", 0)


_SEGMENTS = {
    "UNSORTED_SEGMENT_SUM": "add",
    "UNSORTED_SEGMENT_PROD": "mul",
    "UNSORTED_SEGMENT_MAX": "max",
    "UNSORTED_SEGMENT_MIN": "min",
}


@rule(*_SEGMENTS)
def _unsorted_segments(b: Builder, o: Operator) -> None:
    """Reduce segments; empty ones keep the neutral element, for a maximum the least number."""
    dtype, reduction = b.dtype(o.inputs[0]), _SEGMENTS[o.op]
    neutral = {"add": 0, "mul": 1, "max": lowest(dtype), "min": highest(dtype)}[reduction]
    if dtype == "float32" and reduction in ("max", "min"):
        neutral = float(np.finfo(np.float32).max) * (-1 if reduction == "max" else 1)
    count = b.as_vector(o.inputs[2])
    _segments(b, o, b.as_int64(o.inputs[1]), count, reduction, neutral)


def _segments(
    b: Builder, o: Operator, ids: str, count: str, reduction: str, neutral: float
) -> None:
    """Scatter rows by their id; negative ids land in an additional row that is cut off."""
    data, rank, depth = o.inputs[0], b.rank(o.inputs[0]), b.rank(o.inputs[1])
    x = b.value(data)
    more = b.emit("add", count, b.int64(1))
    rest = b.dims(x, rank)[depth:]
    whole = b.emit("concat", more, *rest, axis=0)
    start = b.full(neutral, whole, b.dtype(data))
    ids = b.emit("where", b.emit("less", ids, b.scalar(0, "int64")), count, ids)
    places = b.emit("unsqueeze", ids, b.int64(-1))
    y = b.emit("scatter_nd", start, places, x, reduction=reduction)
    b.finish(o, b.emit("slice", y, b.int64(0), count, b.int64(0)))


@rule("ONE_HOT")
def _one_hot(b: Builder, o: Operator) -> None:
    indices, depth, on, off = o.inputs
    values = b.emit(
        "concat", *(b.emit("reshape", b.value(each), b.int64(1)) for each in (off, on)), axis=0
    )
    y = b.emit(
        "one_hot", b.as_int64(indices), b.as_vector(depth), values, axis=o.option("Axis", -1)
    )
    b.finish(o, y)


@rule("TOPK_V2")
def _top_k(b: Builder, o: Operator) -> None:
    values, indices = b.emit_many("top_k", 2, b.value(o.inputs[0]), b.as_vector(o.inputs[1]))
    b.finish(o, values)
    b.finish(o, in_declared_dtype(b, indices, o, 1), output=1)


@rule("UNIQUE")
def _unique(b: Builder, o: Operator) -> None:
    values, _, inverse = b.emit_many("unique", 3, b.value(o.inputs[0]), sorted=0)
    b.finish(o, values)
    b.finish(o, in_declared_dtype(b, inverse, o, 1), output=1)


@rule("WHERE")
def _where(b: Builder, o: Operator) -> None:
    """Return the coordinates of the elements that are true, a row each."""
    places = b.emit("non_zero", b.value(o.inputs[0]))
    b.finish(o, b.emit("transpose", places, perm=(1, 0)))


@rule("MATRIX_DIAG")
def _matrix_diag(b: Builder, o: Operator) -> None:
    x, rank = b.value(o.inputs[0]), b.rank(o.inputs[0])
    size = b.dims(x, rank)[-1]
    column = b.emit("unsqueeze", x, b.int64(-1))
    zero = b.scalar(0, b.dtype(o.inputs[0]))
    b.finish(o, b.emit("where", _diagonal(b, size, size), column, zero))


@rule("MATRIX_SET_DIAG")
def _matrix_set_diag(b: Builder, o: Operator) -> None:
    """Set the diagonal, which is as long as the shorter side."""
    x, diagonal = b.value(o.inputs[0]), b.value(o.inputs[1])
    height, width = b.static_shape(o.inputs[0])[-2:]
    spread = b.emit("unsqueeze", diagonal, b.int64(-1 if height <= width else -2))
    here = _diagonal(b, b.int64(height), b.int64(width))
    b.finish(o, b.emit("where", here, spread, x))


def _diagonal(b: Builder, height: str, width: str) -> str:
    """Return bool[height, width], true where row and column are the same."""
    numbers = [
        b.emit(
            "range",
            b.scalar(0, "int64"),
            b.emit("reshape", each, b.int64()),
            b.scalar(1, "int64"),
        )
        for each in (height, width)
    ]
    rows = b.emit("unsqueeze", numbers[0], b.int64(1))
    return b.emit("equal", rows, numbers[1])
