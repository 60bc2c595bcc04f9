"""Resizing, and moves between space, depth and batch."""

from __future__ import annotations

from palmkit.engine.converters.tflite.builder import Builder, rule
from palmkit.engine.converters.tflite.file import Operator
from palmkit.engine.converters.tflite.steps import interpolated, on_integers, rounded, steps
from palmkit.engine.converters.tflite.writer import TO_THE_END
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Attr


def _coordinates(b: Builder, o: Operator) -> tuple[str, bool, bool]:
    """Return the mode of ONNX's resize, and the options that it stands for."""
    align_corners, half_pixel = o.option("AlignCorners", False), o.option("HalfPixelCenters", False)
    if align_corners and half_pixel:
        raise ModelError(f"node {b.current}: both align_corners and half_pixel_centers")
    mode = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
    return mode, align_corners, half_pixel


@rule("RESIZE_NEAREST_NEIGHBOR")
def _resize_nearest(b: Builder, o: Operator) -> None:
    """Write a resize: TFLite rounds a half up or truncates, hence the nearest modes."""
    mode, _, _ = _coordinates(b, o)
    attrs: dict[str, Attr] = {"mode": "nearest", "coordinate_transformation_mode": mode}
    attrs["nearest_mode"] = "floor" if mode == "asymmetric" else "round_prefer_ceil"
    sizes = b.as_int64(o.inputs[1])
    b.finish_nchw(o, b.emit("resize", b.as_nchw(o.inputs[0]), "", "", sizes, axes=(2, 3), **attrs))


@rule("RESIZE_BILINEAR")
def _resize_bilinear(b: Builder, o: Operator) -> None:
    mode, align_corners, half_pixel = _coordinates(b, o)
    attrs: dict[str, Attr] = {"mode": "linear", "coordinate_transformation_mode": mode}
    sizes = b.as_int64(o.inputs[1])
    if not on_integers(b, o):
        y = b.emit("resize", b.as_nchw(o.inputs[0]), "", "", sizes, axes=(2, 3), **attrs)
        b.finish_nchw(o, y)
        return
    x = b.emit("transpose", steps(b, o.inputs[0]), perm=(0, 3, 1, 2))
    if b.stored_dtype(o.inputs[0]) == "int16" and b.is_constant(o.inputs[1]):
        b.finish_stored(o, interpolated(b, o, x, align_corners, half_pixel))
        return
    y = b.emit("resize", x, "", "", sizes, axes=(2, 3), **attrs)
    b.finish_stored(o, rounded(b, o, b.emit("transpose", y, perm=(0, 2, 3, 1)), ties="up"))


@rule("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _depth_to_space(b: Builder, o: Operator) -> None:
    attrs: dict[str, Attr] = {"blocksize": o.option("BlockSize", 1)}
    if o.op == "DEPTH_TO_SPACE":
        attrs["mode"] = "DCR"
    b.finish_nchw(o, b.emit(o.op.lower(), b.as_nchw(o.inputs[0]), **attrs))


def _block(b: Builder, o: Operator) -> tuple[tuple[int, ...], list[list[int]]]:
    """Return the block's sizes and the begins and ends to pad or crop, for the spatial axes."""
    block, amounts = b.numbers(o.inputs[1]), b.whole_numbers(o.inputs[2])
    if amounts.shape != (len(block), 2) or len(block) >= b.rank(o.inputs[0]):
        raise ModelError(
            f"node {b.current}: {o.op}: block {list(block)}, amounts {amounts.tolist()} for "
            f"{list(b.shape(o.inputs[0]))}"
        )
    if min(block, default=1) < 1 or amounts.min(initial=0) < 0:
        raise ModelError(f"node {b.current}: {o.op}: a block below 1, or a negative amount")
    return block, amounts.T.tolist()


@rule("SPACE_TO_BATCH_ND")
def _space_to_batch(b: Builder, o: Operator) -> None:
    block, (begins, ends) = _block(b, o)
    count, rank = len(block), b.rank(o.inputs[0])
    behind = [0] * (rank - 1 - count)
    pads = b.int64(0, *begins, *behind, 0, *ends, *behind)
    x = b.emit("pad", b.value(o.inputs[0]), pads)
    if o.outputs[0] not in b.dilated:
        sizes = [b.int64(size) for size in block]
        batch, *dims = b.dims(x, rank)
        spatial = [b.emit("div", d, s) for d, s in zip(dims[:count], sizes, strict=True)]
        pairs = [each for pair in zip(spatial, sizes, strict=True) for each in pair]
        x = b.emit("reshape", x, b.emit("concat", batch, *pairs, *dims[count:], axis=0))
        within, across = range(2, 2 * count + 1, 2), range(1, 2 * count, 2)
        x = b.emit("transpose", x, perm=(*within, 0, *across, *range(2 * count + 1, rank + count)))
        for size in sizes:
            batch = b.emit("mul", batch, size)
        x = b.emit("reshape", x, b.emit("concat", batch, *spatial, *dims[count:], axis=0))
    b.finish(o, x)


@rule("BATCH_TO_SPACE_ND")
def _batch_to_space(b: Builder, o: Operator) -> None:
    block, (begins, ends) = _block(b, o)
    count, rank = len(block), b.rank(o.inputs[0])
    x = b.value(o.inputs[0])
    if o.inputs[0] not in b.dilated:
        sizes = [b.int64(size) for size in block]
        batch, *dims = b.dims(x, rank)
        for size in sizes:
            batch = b.emit("div", batch, size)
        x = b.emit("reshape", x, b.emit("concat", *sizes, batch, *dims, axis=0))
        pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
        perm = (count, *pairs, *range(2 * count + 1, rank + count))
        x = b.emit("transpose", x, perm=perm)
        spatial = [b.emit("mul", d, s) for d, s in zip(dims[:count], sizes, strict=True)]
        x = b.emit("reshape", x, b.emit("concat", batch, *spatial, *dims[count:], axis=0))
    lasts = b.int64(*(-end or TO_THE_END for end in ends))
    b.finish(o, b.emit("slice", x, b.int64(*begins), lasts, b.int64(*range(1, 1 + count))))
