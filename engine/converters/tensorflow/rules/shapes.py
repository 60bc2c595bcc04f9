"""Operators that change shapes, join, cut and pick."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tensorflow.rules.arithmetic import as_dtype
from palmkit.engine.converters.tensorflow.site import Site, rule
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import MOST_DIMS

_TO_THE_END = int(np.iinfo(np.int64).max)


@rule("Reshape")
def _reshape(n: Site) -> None:
    shape = n.as_vector(n.value(1))
    known = n.known_value(shape)
    literal_zero = known is None or 0 in known
    attrs = {"allowzero": 1} if literal_zero else {}
    n.finish(n.emit("reshape", n.value(0), shape, **attrs))


@rule("Squeeze")
def _squeeze(n: Site) -> None:
    axes = n.list("squeeze_dims") or n.list("axis")
    n.finish(n.emit("squeeze", n.value(0), *([n.int64(*axes)] if axes else [])))


@rule("ExpandDims")
def _expand_dims(n: Site) -> None:
    n.finish(n.emit("unsqueeze", n.value(0), n.as_vector(n.value(1))))


@rule("Transpose")
def _transpose(n: Site) -> None:
    n.finish(n.transposed(n.value(0), _positive(n.integers(1))))


def _positive(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis + len(axes) if axis < 0 else axis for axis in axes)


@rule("InvertPermutation")
def _invert_permutation(n: Site) -> None:
    n.finish(n.constant(np.argsort(n.integers(0)), n.dtype(default="int32")))


@rule("ConcatV2", "Concat")
def _concat(n: Site) -> None:
    values = n.values()
    axis = n.integers(n.count - 1 if n.op == "ConcatV2" else 0)
    parts = values[:-1] if n.op == "ConcatV2" else values[1:]
    n.finish(n.emit("concat", *parts, axis=axis[0]))


@rule("Pack")
def _pack(n: Site) -> None:
    axes = n.int64(n.integer("axis"))
    parts = [n.emit("unsqueeze", value, axes) for value in n.values()]
    n.finish(n.emit("concat", *parts, axis=n.integer("axis")))


@rule("Unpack")
def _unpack(n: Site) -> None:
    axis, count = n.integer("axis"), n.output_count
    axes = n.int64(axis)
    if not count:
        n.finish()
        return
    parts = n.emit_many("split", count, n.value(0), "", axis=axis, num_outputs=count)
    n.finish(*(n.emit("squeeze", part, axes) for part in parts))


@rule("Split")
def _split(n: Site) -> None:
    axis, count = n.integers(0)[0], n.output_count
    n.finish(*n.emit_many("split", count, n.value(1), "", axis=axis, num_outputs=count))


@rule("SplitV")
def _split_v(n: Site) -> None:
    """Split by lengths; a length of -1 takes the rest."""
    sizes, axis, count = n.as_vector(n.value(1)), n.integers(2)[0], n.output_count
    known = n.known_value(sizes)
    if known is not None and -1 in known:
        dim = n.emit("gather", n.emit("shape", n.value(0)), n.int64(axis), axis=0)
        rest = n.emit("sub", dim, n.int64(int(known.sum()) + 1))
        sizes = n.emit("where", n.constant(known == -1, "bool"), rest, sizes)
    n.finish(*n.emit_many("split", count, n.value(0), sizes, axis=axis))


@rule("Slice")
def _slice(n: Site) -> None:
    """Write a slice; a size of -1 goes to the end."""
    starts, sizes = n.as_vector(n.value(1)), n.as_vector(n.value(2))
    minus_one, end = n.constant(-1, "int64"), n.constant(_TO_THE_END, "int64")
    ends = n.emit("add", starts, sizes)
    known = n.known_value(sizes)
    if known is None or -1 in known:
        ends = n.emit("where", n.emit("equal", sizes, minus_one), end, ends)
    fact = n.building.facts.get(starts)
    if fact is None or fact.shape[0] is None:
        raise n.unsupported("an unknown number of axes")
    if fact.shape[0] > MOST_DIMS:
        raise ModelError(f"node {n.name}: {n.op}: starts of {fact.shape[0]} axes")
    axes = n.int64(*range(fact.shape[0]))
    n.finish(n.emit("slice", n.value(0), starts, ends, axes))


@rule("StridedSlice")
def _strided_slice(n: Site) -> None:
    """Write a strided slice.

    Masks are bits by place in the lists; an ellipsis stands for all axes that are left. A shrunk
    axis is one index, removed from the shape, whatever the masks of begin and end say.
    """
    steps = n.integers(3)
    count = len(steps)
    if count > 2 * MOST_DIMS:
        raise ModelError(f"node {n.name}: {n.op}: {count} indices are too many")
    begins, ends = (_numbers(n, index, count) for index in (1, 2))
    masks = {
        name: n.integer(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if masks["ellipsis"].bit_count() > 1:
        raise ModelError(f"node {n.name}: {n.op}: more than one ellipsis")
    new = sum(bool(masks["new_axis"] & ~masks["ellipsis"] & 1 << place) for place in range(count))
    axis, placed = 0, 0
    slices: list[tuple[str, str, int, int]] = []
    gone: list[int] = []
    picked: list[tuple[int, str]] = []
    added: list[int] = []
    for place in range(count):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            later = sum(not masks["new_axis"] & 1 << after for after in range(place + 1, count))
            if later or new:
                skipped = n.rank(0) - axis - later
                if skipped < 0:
                    raise ModelError(f"node {n.name}: {n.op}: {count} indices are too many")
                axis, placed = axis + skipped, placed + skipped
            continue
        if masks["new_axis"] & bit:
            added.append(placed)
            placed += 1
            continue
        step = steps[place]
        if masks["shrink_axis"] & bit:
            if step <= 0:
                raise ModelError(f"node {n.name}: {n.op}: one index in steps of {step}")
            index = n.known_value(begins[place])
            if index is None:
                picked.append((axis, begins[place]))
            else:
                gone.append(axis)
                behind = int(index[0]) + 1 or _TO_THE_END
                slices.append((begins[place], n.int64(behind), axis, 1))
        else:
            forth = step > 0
            begin, end = begins[place], ends[place]
            if masks["begin"] & bit:
                begin = n.int64(0 if forth else _TO_THE_END)
            if masks["end"] & bit:
                end = n.int64(_TO_THE_END if forth else -_TO_THE_END)
            if not forth:
                end = _end_of_backward(n, axis, begin, end)
            if not (masks["begin"] & bit and masks["end"] & bit and step == 1):
                slices.append((begin, end, axis, step))
            placed += 1
        axis += 1
    shape = n.shape(0)
    if shape is not None and axis > len(shape):
        raise ModelError(f"node {n.name}: {n.op}: {count} indices are too many")
    y = n.value(0)
    if slices:
        starts, stops = (n.emit("concat", *each, axis=0) for each in _columns(slices))
        axes, strides = n.int64(*(s[2] for s in slices)), n.int64(*(s[3] for s in slices))
        y = n.emit("slice", y, starts, stops, axes, strides)
    for at, place_of in reversed(picked):
        y = n.emit("gather", y, n.emit("reshape", place_of, n.int64()), axis=at)
        gone = [each - (each > at) for each in gone]
    if gone:
        y = n.emit("squeeze", y, n.int64(*gone))
    n.finish(n.emit("unsqueeze", y, n.int64(*added)) if added else y)


def _end_of_backward(n: Site, axis: int, begin: str, end: str) -> str:
    """Return an end that makes a backward slice from before the first element empty.

    The op takes such a slice from the first element on, as ONNX does; TensorFlow's is empty.
    """
    known, shape = n.known_value(begin), n.shape(0)
    size = shape[axis] if shape is not None else None
    if known is not None and (size is not None or known[0] >= -1):
        return n.int64(_TO_THE_END) if known[0] < -(size or 1) else end
    dim = n.emit("gather", n.emit("shape", n.value(0)), n.int64(axis), axis=0)
    before = n.emit("less", begin, n.emit("neg", dim))
    return n.emit("where", before, n.int64(_TO_THE_END), end)


def _columns(slices: list[tuple[str, str, int, int]]) -> tuple[list[str], list[str]]:
    return [each[0] for each in slices], [each[1] for each in slices]


def _numbers(n: Site, index: int, count: int) -> list[str]:
    """Return the elements of an input, int64[1] each."""
    known = n.known(index)
    if known is not None and known.size == count:
        return [n.int64(int(number)) for number in known.reshape(-1)]
    vector = n.as_vector(n.value(index))
    return [n.emit("gather", vector, n.int64(place), axis=0) for place in range(count)]


@rule("Pad", "PadV2")
def _pad(n: Site) -> None:
    fill = [n.value(2)] if n.op == "PadV2" else []
    n.finish(n.emit("pad", n.value(0), _pads(n), *fill))


def _pads(n: Site) -> str:
    """Return TensorFlow's paddings [rank, 2] as all begins, then all ends."""
    turned = n.emit("transpose", n.as_int64(n.value(1)), perm=(1, 0))
    return n.emit("reshape", turned, n.int64(-1))


@rule("MirrorPad")
def _mirror_pad(n: Site) -> None:
    """Write a mirror padding; a symmetric one that is wider than 1 is made of slices.

    A symmetric mirror repeats the border itself.
    """
    if n.text("mode") == "REFLECT":
        n.finish(n.emit("pad", n.value(0), _pads(n), mode="reflect"))
        return
    amounts = n.integers(1)
    if max(amounts, default=0) <= 1:
        n.finish(n.emit("pad", n.value(0), _pads(n), mode="edge"))
        return
    x = n.value(0)
    for axis, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
        parts = [x]
        axes, back = n.int64(axis), n.int64(-1)
        if before:
            start, end = n.int64(before - 1), n.int64(-_TO_THE_END)
            parts.insert(0, n.emit("slice", x, start, end, axes, back))
        if after:
            parts.append(n.emit("slice", x, back, n.int64(-after - 1), axes, back))
        x = n.emit("concat", *parts, axis=axis) if len(parts) > 1 else x
    n.finish(x)


@rule("Tile")
def _tile(n: Site) -> None:
    n.finish(n.emit("tile", n.value(0), n.as_int64(n.value(1))))


@rule("BroadcastTo")
def _broadcast_to(n: Site) -> None:
    n.finish(n.emit("expand", n.value(0), n.as_int64(n.value(1))))


@rule("BroadcastArgs")
def _broadcast_args(n: Site) -> None:
    """Write the shape of a sum of two values of these shapes."""
    zero = n.constant(0, "int64")
    a, b = (n.emit("expand", zero, n.as_int64(value)) for value in n.values())
    shape = n.emit("shape", n.emit("add", a, b))
    n.finish(as_dtype(n, shape, n.dtype("T", "int32")))


@rule("ReverseV2")
def _reverse(n: Site) -> None:
    axes = n.integers(1)
    if not axes:
        n.finish(n.raw(0))
        return
    back, end = n.int64(*[-1] * len(axes)), n.int64(*[-_TO_THE_END] * len(axes))
    n.finish(n.emit("slice", n.value(0), back, end, n.int64(*axes), back))


@rule("ReverseSequence")
def _reverse_sequence(n: Site) -> None:
    """Transpose as needed: ONNX has the batch at axis 0 or 1 and the time at the other one."""
    batch, time = n.integer("batch_dim"), n.integer("seq_dim")
    x, lengths = n.value(0), n.as_int64(n.value(1))
    if {batch, time} == {0, 1}:
        n.finish(n.emit("reverse_sequence", x, lengths, batch_axis=batch, time_axis=time))
        return
    rank = n.rank(0)
    batch, time = batch % rank, time % rank
    perm = (batch, time, *(axis for axis in range(rank) if axis not in (batch, time)))
    y = n.emit("transpose", x, perm=perm)
    y = n.emit("reverse_sequence", y, lengths, batch_axis=0, time_axis=1)
    n.finish(n.emit("transpose", y, perm=tuple(int(axis) for axis in np.argsort(perm))))


@rule("MatrixBandPart")
def _band_part(n: Site) -> None:
    """Write a band; a negative number of diagonals keeps them all."""
    below, above = n.integers(1)[0], n.integers(2)[0]
    x = n.value(0)
    if below >= 0:
        x = n.emit("trilu", x, n.constant(-below, "int64"), upper=1)
    if above >= 0:
        x = n.emit("trilu", x, n.constant(above, "int64"), upper=0)
    n.finish(x)


@rule("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag(n: Site) -> None:
    """Write the main diagonal alone, as an identity matrix times the vector."""
    if n.op != "MatrixDiag" and n.integers(1) != (0,):
        raise n.unsupported("another diagonal than the main one")
    x = n.value(0)
    shape = n.emit("shape", x)
    last = n.emit("gather", shape, n.constant(-1, "int64"), axis=0)
    places = n.emit("range", n.constant(0, "int64"), last, n.constant(1, "int64"))
    across, down = n.emit("unsqueeze", places, n.int64(0)), n.emit("unsqueeze", places, n.int64(1))
    eye = n.emit("equal", across, down)
    wide = n.emit("unsqueeze", x, n.int64(-1))
    n.finish(n.emit("where", eye, wide, n.constant(0, n.dtype())))


@rule("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part(n: Site) -> None:
    """Read the main diagonal alone."""
    if n.op != "MatrixDiagPart" and n.integers(1) != (0,):
        raise n.unsupported("another diagonal than the main one")
    x, rank = n.value(0), n.rank(0)
    axes = "abcdefghijklmnopqrstuvwxyz"[: max(0, rank - 2)]
    shape = n.emit("shape", x)
    lengths = [n.emit("gather", shape, n.int64(axis), axis=0) for axis in (-2, -1)]
    length = n.emit("min", *lengths)
    start, ends = n.int64(0, 0), n.emit("concat", length, length, axis=0)
    x = n.emit("slice", x, start, ends, n.int64(-2, -1))
    n.finish(n.emit("einsum", x, equation=f"{axes}yy->{axes}y"))


@rule("Roll")
def _roll(n: Site) -> None:
    """Cut each axis in two and exchange the halves."""
    x, shifts, axes = n.value(0), n.as_vector(n.value(1)), n.integers(2)
    shape = n.emit("shape", x)
    for number, axis in enumerate(axes):
        dim = n.emit("gather", shape, n.int64(axis), axis=0)
        shift = n.emit("gather", shifts, n.int64(number), axis=0)
        place = n.emit("mod", n.emit("neg", shift), dim)
        along, zero, end = n.int64(axis), n.int64(0), n.int64(_TO_THE_END)
        parts = n.emit("slice", x, place, end, along), n.emit("slice", x, zero, place, along)
        x = n.emit("concat", *parts, axis=axis)
    n.finish(x)
