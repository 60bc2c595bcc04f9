"""Operators that move, cut and join elements."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.tflite.builder import Builder, fused_activation, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.writer import TO_THE_END
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Attr


@rule("TRANSPOSE")
def _transpose(b: Builder, o: Operator) -> None:
    perm = tuple(b.axis(axis, o.inputs[0]) for axis in b.numbers(o.inputs[1]))
    b.finish(o, b.emit("transpose", b.value(o.inputs[0]), perm=perm))


@rule("CONCATENATION")
def _concatenation(b: Builder, o: Operator) -> None:
    y = b.emit("concat", *(b.value(index) for index in o.inputs), axis=o.option("Axis", 0))
    b.finish(o, y, fused_activation(o))


@rule("PACK")
def _pack(b: Builder, o: Operator) -> None:
    axis = b.axis(o.option("Axis", 0), o.inputs[0], 1)
    parts = [b.emit("unsqueeze", b.value(index), b.int64(axis)) for index in o.inputs]
    b.finish(o, b.emit("concat", *parts, axis=axis))


@rule("UNPACK")
def _unpack(b: Builder, o: Operator) -> None:
    axis = o.option("Axis", 0)
    attrs: dict[str, Attr] = {"axis": axis, "num_outputs": len(o.outputs)}
    parts = b.emit_many("split", len(o.outputs), b.value(o.inputs[0]), **attrs)
    for place, part in enumerate(parts):
        b.finish(o, b.emit("squeeze", part, b.int64(axis)), output=place)


def _finish_all(b: Builder, o: Operator, parts: tuple[str, ...]) -> None:
    for place, part in enumerate(parts):
        b.finish(o, part, output=place)


@rule("SPLIT")
def _split(b: Builder, o: Operator) -> None:
    attrs: dict[str, Attr] = {"axis": b.number(o.inputs[0]), "num_outputs": len(o.outputs)}
    _finish_all(b, o, b.emit_many("split", len(o.outputs), b.value(o.inputs[1]), **attrs))


@rule("SPLIT_V")
def _split_v(b: Builder, o: Operator) -> None:
    axis = b.axis(b.number(o.inputs[2]), o.inputs[0])
    sizes = b.numbers(o.inputs[1])
    if -1 in sizes:
        total = b.shape(o.inputs[0])[axis]
        if total < 0:
            raise UnsupportedError(f"node {b.current}: {o.op}: a size of -1 of an unknown dim")
        sizes = tuple(total - sum(sizes) - 1 if size == -1 else size for size in sizes)
    if len(sizes) != len(o.outputs):
        raise ModelError(f"node {b.current}: {len(sizes)} sizes for {len(o.outputs)} outputs")
    x = b.value(o.inputs[0])
    _finish_all(b, o, b.emit_many("split", len(sizes), x, b.int64(*sizes), axis=axis))


@rule("SLICE")
def _slice(b: Builder, o: Operator) -> None:
    """Write a slice; a size of -1 means up to the end."""
    x, starts, sizes = b.value(o.inputs[0]), b.as_int64(o.inputs[1]), b.as_int64(o.inputs[2])
    ends = b.emit("add", starts, sizes)
    open_ended = b.emit("less", sizes, b.scalar(0, "int64"))
    ends = b.emit("where", open_ended, b.scalar(TO_THE_END, "int64"), ends)
    b.finish(o, b.emit("slice", x, starts, ends))


@rule("STRIDED_SLICE")
def _strided_slice(b: Builder, o: Operator) -> None:
    """Write a strided slice, whose masks are bits by place in the lists.

    An ellipsis stands for all axes that are left, a new axis for none. A shrunk axis is one index,
    removed from the shape: the first where the begin is masked. Begins and ends may be computed,
    the strides are constant.
    """
    x, steps = o.inputs[0], b.numbers(o.inputs[3])
    masks = {
        name: int(o.option(f"{name}Mask", 0))
        for name in ("Begin", "End", "Ellipsis", "NewAxis", "ShrinkAxis")
    }

    def has(name: str, place: int) -> bool:
        return bool(masks[name] >> place & 1)

    places = range(len(steps))
    ellipses = [place for place in places if has("Ellipsis", place)]
    if len(ellipses) > 1:
        raise ModelError(f"node {b.current}: {o.op}: more than one ellipsis")
    taken = sum(not has("NewAxis", place) and place not in ellipses for place in places)
    kept: list[tuple[int, int]] = []
    shrunk: list[int] = []
    new: list[int] = []
    axis = result_axis = 0
    for place in places:
        if place in ellipses:
            axis += b.rank(x) - taken
            result_axis += b.rank(x) - taken
        elif has("NewAxis", place):
            new.append(result_axis)
            result_axis += 1
        else:
            kept.append((place, axis))
            if has("ShrinkAxis", place):
                if steps[place] <= 0:
                    raise ModelError(
                        f"node {b.current}: {o.op}: one index in steps of {steps[place]}"
                    )
                shrunk.append(axis)
            else:
                result_axis += 1
            axis += 1
    y = b.value(x)
    if kept:
        y = _cut(b, o, y, kept, masks, steps)
    if shrunk:
        y = b.emit("squeeze", y, b.int64(*shrunk))
    b.finish(o, b.emit("unsqueeze", y, b.int64(*new)) if new else y)


def _cut(
    b: Builder,
    o: Operator,
    x: str,
    kept: list[tuple[int, int]],
    masks: dict[str, int],
    steps: tuple[int, ...],
) -> str:
    """Slice the axes.

    kept: the place in the lists, and the axis, of each.
    """
    places = np.array([place for place, _ in kept])
    strides = np.array(steps, np.int64)[places]
    chosen = b.int64_array(places)
    begins, ends = (b.emit("gather", b.as_vector(index), chosen) for index in o.inputs[1:3])
    axes, back = b.int64(*(axis for _, axis in kept)), strides < 0
    begins = _replaced(b, begins, _bits(masks["Begin"], places), np.where(back, TO_THE_END, 0))
    if o.option("Offset", False):
        ends = _ends_of_lengths(b, x, axes, back, begins, ends)
    else:
        last = np.where(back, -TO_THE_END, TO_THE_END)
        ends = _replaced(b, ends, _bits(masks["End"], places), last)
    shrink = _bits(masks["ShrinkAxis"], places)
    if shrink.any():
        after = b.emit("add", begins, b.int64(1))
        at_the_end = b.emit("equal", begins, b.int64(-1))
        after = b.emit("where", at_the_end, b.int64(TO_THE_END), after)
        ends = b.emit("where", b.array(shrink), after, ends)
        strides = np.where(shrink, 1, strides)
    if back.any():
        # A backward slice from before the first element is empty in TFLite; in ONNX, as in the op,
        # it starts at the first.
        before = b.emit("less", begins, b.emit("neg", _sizes(b, x, axes)))
        before = b.emit("and", before, b.array(back))
        ends = b.emit("where", before, b.int64(TO_THE_END), ends)
    return b.emit("slice", x, begins, ends, axes, b.int64_array(strides))


def _sizes(b: Builder, x: str, axes: str) -> str:
    return b.emit("gather", b.emit("shape", x), axes)


def _ends_of_lengths(b: Builder, x: str, axes: str, back: Array, begins: str, lengths: str) -> str:
    """Return ends at these distances from the begins, whatever the mask of the ends says.

    back: which axes are cut backwards; their lengths are negative.
    """
    sizes = _sizes(b, x, axes)
    is_negative = b.emit("less", begins, b.int64(0))
    first = b.emit("where", is_negative, b.emit("add", begins, sizes), begins)
    first = b.emit("min", first, b.emit("sub", sizes, b.int64_array(back)))
    first = b.emit("max", first, b.int64_array(-1 * back))
    ends = b.emit("add", first, lengths)
    return b.emit("where", b.emit("less", ends, b.int64(0)), b.int64(-TO_THE_END), ends)


def _bits(mask: int, places: Array) -> Array:
    return (mask >> places & 1).astype(np.bool_)


def _replaced(b: Builder, numbers: str, where: Array, others: Array) -> str:
    if not where.any():
        return numbers
    return b.emit("where", b.array(where), b.int64_array(others), numbers)


def _pads(b: Builder, index: int) -> str:
    """Return TFLite's paddings[rank, 2] as ONNX's: all begins, then all ends."""
    return b.emit("reshape", b.emit("transpose", b.as_int64(index), perm=(1, 0)), b.int64(-1))


@rule("PAD", "PADV2")
def _pad(b: Builder, o: Operator) -> None:
    fill = []
    if o.op == "PADV2":
        fill = [b.emit("reshape", b.value(o.inputs[2]), b.int64())]
    b.finish(o, b.emit("pad", b.value(o.inputs[0]), _pads(b, o.inputs[1]), *fill))


@rule("MIRROR_PAD")
def _mirror_pad(b: Builder, o: Operator) -> None:
    """Write a mirror padding; a symmetric one joins slices that run backwards.

    A symmetric mirror repeats the border itself.
    """
    if o.option("Mode", 0) == 0:
        b.finish(o, b.emit("pad", b.value(o.inputs[0]), _pads(b, o.inputs[1]), mode="reflect"))
        return
    y, amounts = b.value(o.inputs[0]), b.whole_numbers(o.inputs[1])
    if amounts.ndim != 2 or amounts.shape[1] != 2 or amounts.min(initial=0) < 0:
        raise ModelError(f"node {b.current}: {o.op}: paddings {amounts.tolist()}")
    for axis, (before, after) in enumerate(amounts.tolist()):
        parts = [y]
        if before:
            parts.insert(0, _backwards(b, y, axis, before - 1, -TO_THE_END))
        if after:
            parts.append(_backwards(b, y, axis, -1, -after - 1))
        y = b.emit("concat", *parts, axis=axis) if len(parts) > 1 else y
    b.finish(o, y)


def _backwards(b: Builder, x: str, axis: int, start: int, end: int) -> str:
    return b.emit("slice", x, b.int64(start), b.int64(end), b.int64(axis), b.int64(-1))


@rule("REVERSE_V2")
def _reverse(b: Builder, o: Operator) -> None:
    axes = b.numbers(o.inputs[1])
    ends = b.int64(*[-TO_THE_END] * len(axes))
    backwards = b.int64(*[-1] * len(axes))
    b.finish(o, b.emit("slice", b.value(o.inputs[0]), backwards, ends, b.int64(*axes), backwards))


@rule("REVERSE_SEQUENCE")
def _reverse_sequence(b: Builder, o: Operator) -> None:
    """Write the op with transposes: ONNX wants the batch and the time axis in front."""
    rank = b.rank(o.inputs[0])
    time, batch = (
        b.axis(o.option("SeqDim", 0), o.inputs[0]),
        b.axis(o.option("BatchDim", 0), o.inputs[0]),
    )
    perm = (batch, time, *(axis for axis in range(rank) if axis not in (batch, time)))
    x = b.emit("transpose", b.value(o.inputs[0]), perm=perm)
    y = b.emit("reverse_sequence", x, b.as_int64(o.inputs[1]), batch_axis=0, time_axis=1)
    b.finish(o, b.emit("transpose", y, perm=tuple(perm.index(axis) for axis in range(rank))))


@rule("TILE")
def _tile(b: Builder, o: Operator) -> None:
    b.finish(o, b.emit("tile", b.value(o.inputs[0]), b.as_int64(o.inputs[1])))


@rule("DYNAMIC_UPDATE_SLICE")
def _dynamic_update_slice(b: Builder, o: Operator) -> None:
    x, update, start = o.inputs
    y = b.emit("dynamic_update_slice", b.value(x), b.value(update), b.as_int64(start))
    b.finish(o, y)


@rule("DILATE")
def _dilate(b: Builder, o: Operator) -> None:
    fill = b.emit("reshape", b.value(o.inputs[2]), b.int64())
    b.finish(o, _spread(b, b.value(o.inputs[0]), b.numbers(o.inputs[1]), fill))


def _spread(b: Builder, x: str, factors: tuple[int, ...], fill: str) -> str:
    """Return x with factor - 1 times `fill` between its elements along each axis."""
    if min(factors, default=1) < 1:
        raise ModelError(f"node {b.current}: spread by {list(factors)}")
    for axis, factor in enumerate(factors):
        if factor == 1:
            continue
        dims = b.dims(x, len(factors))
        dims[axis] = b.emit("mul", dims[axis], b.int64(factor))
        x = b.emit("unsqueeze", x, b.int64(axis + 1))
        x = b.emit("pad", x, b.int64(0, factor - 1), fill, b.int64(axis + 1))
        x = b.emit("reshape", x, b.emit("concat", *dims, axis=0))
        x = b.emit("slice", x, b.int64(0), b.int64(1 - factor), b.int64(axis))
    return x


@rule("STABLEHLO_PAD")
def _stablehlo_pad(b: Builder, o: Operator) -> None:
    low, high = o.options("EdgePaddingLow"), o.options("EdgePaddingHigh")
    factors = tuple(amount + 1 for amount in o.options("InteriorPadding"))
    fill = b.emit("reshape", b.value(o.inputs[1]), b.int64())
    x = _spread(b, b.value(o.inputs[0]), factors, fill)
    b.finish(o, b.emit("pad", x, b.int64(*low, *high), fill))
