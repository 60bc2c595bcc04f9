"""Operators that pick elements by index, and that put them in place."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.rules.arithmetic import as_dtype
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import MOST_DIMS

_TO_THE_END = int(np.iinfo(np.int64).max)


@rule("Gather", "GatherV2", "ResourceGather")
def _gather(n: Site) -> None:
    axis = n.integers(2)[0] if n.op == "GatherV2" else 0
    batch = n.integer("batch_dims")
    if batch < 0:
        batch += n.rank(1)
    if axis < 0:
        axis += n.rank(0)
    if not batch:
        n.finish(n.emit("gather", n.value(0), n.value(1), axis=axis))
        return
    if not 0 < batch <= axis < MOST_DIMS:
        raise ModelError(f"node {n.name}: {n.op}: axis {axis} behind {batch} batch axes")
    x, places = n.value(0), n.as_int64(n.value(1))
    places = n.emit("unsqueeze", places, n.int64(-1))
    if axis == batch:
        n.finish(n.emit("gather_nd", x, places, batch_dims=batch))
        return
    # The axis moves to the front of the axes that are not batch, and its result moves back.
    rank, found = n.rank(0), n.rank(1) - batch
    others = [each for each in range(batch, rank) if each != axis]
    x = n.emit("transpose", x, perm=(*range(batch), axis, *others))
    y = n.emit("gather_nd", x, places, batch_dims=batch)
    before = axis - batch
    perm = [*range(batch), *range(batch + found, batch + found + before)]
    perm += [*range(batch, batch + found), *range(batch + found + before, rank + found - 1)]
    n.finish(n.emit("transpose", y, perm=tuple(perm)))


@rule("GatherNd", "ResourceGatherNd")
def _gather_nd(n: Site) -> None:
    batch = n.integer("batch_dims")
    n.finish(n.emit("gather_nd", n.value(0), n.as_int64(n.value(1)), batch_dims=batch))


@rule("ScatterNd")
def _scatter_nd(n: Site) -> None:
    zero = n.constant(0, n.dtype())
    whole = n.emit("expand", zero, n.as_int64(n.value(2)))
    places = n.as_int64(n.value(0))
    n.finish(n.emit("scatter_nd", whole, places, n.value(1), reduction="add"))


_SCATTERS = {
    "TensorScatterAdd": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
    "TensorScatterUpdate": "none",
}


@rule(*_SCATTERS)
def _tensor_scatter(n: Site) -> None:
    places = n.as_int64(n.value(1))
    n.finish(n.emit("scatter_nd", n.value(0), places, n.value(2), reduction=_SCATTERS[n.op]))


@rule("OneHot")
def _one_hot(n: Site) -> None:
    off = n.emit("reshape", n.value(3), n.int64(1))
    values = n.emit("concat", off, n.emit("reshape", n.value(2), n.int64(1)), axis=0)
    depth = n.emit("reshape", n.as_int64(n.value(1)), n.int64())
    indices = n.as_int64(n.value(0))
    y = n.emit("one_hot", indices, depth, values, axis=n.integer("axis", -1))
    # A negative number is no class; ONNX would count it from the back.
    axis = n.integer("axis", -1)
    absent = n.emit("unsqueeze", n.emit("less", indices, n.constant(0, "int64")), n.int64(axis))
    known = n.known_value(indices)
    if known is not None and known.min(initial=0) >= 0:
        n.finish(y)
    else:
        n.finish(n.emit("where", absent, n.value(3), y))


@rule("TopK", "TopKV2")
def _top_k(n: Site) -> None:
    if n.op == "TopKV2":
        count = n.emit("reshape", n.as_int64(n.value(1)), n.int64(1))
    else:
        count = n.int64(n.integer("k", 1))
    values, places = n.emit_many("top_k", 2, n.value(0), count, axis=-1, largest=1, sorted=1)
    n.finish(values, as_dtype(n, places, n.dtype("index_type", "int32")))


@rule("Where")
def _where(n: Site) -> None:
    n.finish(n.emit("transpose", n.emit("non_zero", n.value(0)), perm=(1, 0)))


@rule("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def _unique(n: Site) -> None:
    """Write the unique values in the order in which they come first."""
    if n.op.endswith("V2"):
        axes = n.integers(1)
        if axes not in ((), (0,)) or n.rank(0) != 1:
            raise n.unsupported("an axis")
    y, _, places, counts = n.emit_many("unique", 4, n.value(0), sorted=0)
    dtype = n.dtype("out_idx", "int32")
    n.finish(y, as_dtype(n, places, dtype), as_dtype(n, counts, dtype))


@rule("SegmentSum", "UnsortedSegmentSum")
def _segment_sum(n: Site) -> None:
    """Add rows up by segment number; rows with a negative number are left out."""
    x, numbers = n.value(0), n.as_int64(n.value(1))
    rank, zero = n.rank(1), n.constant(0, "int64")
    if n.op == "SegmentSum":
        count = n.emit("add", n.emit("reduce_max", numbers, keepdims=0), n.constant(1, "int64"))
    else:
        count = n.emit("reshape", n.as_int64(n.value(2)), n.int64())
    # An additional row at the end receives the rows that are left out.
    outside = n.emit("less", numbers, zero)
    places = n.emit("unsqueeze", n.emit("where", outside, count, numbers), n.int64(-1))
    rest = n.emit("slice", n.emit("shape", x), n.int64(rank), n.int64(_TO_THE_END), n.int64(0))
    rows = n.emit("unsqueeze", n.emit("add", count, n.constant(1, "int64")), n.int64(0))
    whole = n.emit("expand", n.constant(0, n.dtype()), n.emit("concat", rows, rest, axis=0))
    y = n.emit("scatter_nd", whole, places, x, reduction="add")
    n.finish(n.emit("slice", y, n.int64(0), n.int64(-1), n.int64(0)))


@rule("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(n: Site) -> None:
    """Put rows where their numbers say."""
    half = n.count // 2
    numbers, rows = list[str](), list[str]()
    for index in range(half):
        rank = n.rank(index)
        numbers.append(n.as_vector(n.value(index)))
        shape = n.emit("shape", n.value(half + index))
        rest = n.emit("slice", shape, n.int64(rank), n.int64(_TO_THE_END), n.int64(0))
        flat = n.emit("concat", n.int64(-1), rest, axis=0)
        rows.append(n.emit("reshape", n.value(half + index), flat, allowzero=1))
    places, values = n.emit("concat", *numbers, axis=0), n.emit("concat", *rows, axis=0)
    last = n.emit("reduce_max", places, n.int64(0))
    rest = n.emit("slice", n.emit("shape", values), n.int64(1), n.int64(_TO_THE_END), n.int64(0))
    size = n.emit("concat", n.emit("add", last, n.int64(1)), rest, axis=0)
    whole = n.emit("expand", n.constant(0, n.dtype()), size)
    places = n.emit("unsqueeze", places, n.int64(-1))
    n.finish(n.emit("scatter_nd", whole, places, values))


@rule("LowerBound", "UpperBound")
def _bound(n: Site) -> None:
    """Count in each row of sorted numbers those below each value, or not above it."""
    row, value = (
        n.emit("unsqueeze", n.value(0), n.int64(1)),
        n.emit("unsqueeze", n.value(1), n.int64(2)),
    )
    op = "less" if n.op == "LowerBound" else "less_or_equal"
    found = n.emit("cast", n.emit(op, row, value), to="int64")
    count = n.emit("reduce_sum", found, n.int64(-1), keepdims=0)
    n.finish(as_dtype(n, count, n.dtype("out_type", "int32")))


@rule("Bucketize")
def _bucketize(n: Site) -> None:
    """Count the boundaries that are not above each value."""
    boundaries = n.attrs["boundaries"].list.f if n.has("boundaries") else ()
    row = n.constant(np.array(boundaries, np.float32), "float32")
    value = n.emit("cast", n.emit("unsqueeze", n.value(0), n.int64(-1)), to="float32")
    found = n.emit("cast", n.emit("less_or_equal", row, value), to="int32")
    n.finish(n.emit("reduce_sum", found, n.int64(-1), keepdims=0))


@rule("DenseBincount")
def _bincount(n: Site) -> None:
    """Write how often each number comes in each row, or the sum of its weights, or if it comes."""
    dtype = n.dtype()
    depth = n.emit("reshape", n.as_int64(n.value(1)), n.int64())
    marks = n.constant([0, 1], dtype)
    found = n.emit("one_hot", n.as_int64(n.value(0)), depth, marks, axis=-1)
    weights = n.shape(2)
    if weights is None or 0 not in weights:
        found = n.emit("mul", found, n.emit("unsqueeze", n.value(2), n.int64(-1)))
    op = "reduce_max" if n.flag("binary_output") else "reduce_sum"
    n.finish(n.emit(op, found, n.int64(-2), keepdims=0))
