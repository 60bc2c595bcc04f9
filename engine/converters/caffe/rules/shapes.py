"""Layers that move, cut, join, count or reduce elements."""

from collections.abc import Sequence
from typing import Any

from palmkit.engine.converters.caffe.graph import Copy, Draft
from palmkit.engine.converters.caffe.rules import MANY, rule
from palmkit.engine.converters.caffe.rules.convolution import plane_starts

_TO_THE_END = (1 << 63) - 1


def _axis(draft: Draft, x: str, options: Any, old_name: str) -> int:
    """Return the axis under its new name or its old one."""
    if options.HasField(old_name):
        if options.HasField("axis"):
            raise draft.bad(f"expected axis or {old_name}, got both")
        return draft.axis(x, getattr(options, old_name))
    return draft.axis(x, options.axis)


@rule("Concat", bottoms=(1, MANY))
def _concat(draft: Draft, *bottoms: str) -> str:
    axis = _axis(draft, bottoms[0], draft.layer.message.concat_param, "concat_dim")
    return draft.emit("concat", *bottoms, axis=axis)


@rule("Slice")
def _slice(draft: Draft, x: str) -> Sequence[str]:
    """Split x at the slice points, or into equal pieces."""
    options = draft.layer.message.slice_param
    axis = _axis(draft, x, options, "slice_dim")
    count, points = len(draft.layer.tops), list(options.slice_point)
    if count == 1:
        return [x]
    if not points:
        if draft.dims(x)[axis] % count:
            raise draft.bad(f"axis {axis} of {draft.type(x)} has no {count} equal parts")
        return draft.emit_all("split", count, x, axis=axis, num_outputs=count)
    starts = [0, *points]
    if len(starts) != count or sorted({*starts, draft.dims(x)[axis]}) != [
        *starts,
        draft.dims(x)[axis],
    ]:
        raise draft.bad(f"slice points {points} do not cut {draft.type(x)} into {count} parts")
    return [
        draft.emit("slice", x, draft.int64(start), draft.int64(end), draft.int64(axis))
        for start, end in zip(starts, [*points, _TO_THE_END], strict=True)
    ]


@rule("Split")
def _split(draft: Draft, x: str) -> list[str]:
    return [x] * len(draft.layer.tops)


@rule("Silence", bottoms=(1, MANY))
def _silence(draft: Draft, *bottoms: str) -> list[str]:
    return []


@rule("Crop", bottoms=2)
def _crop(draft: Draft, x: str, like: str) -> str:
    """Cut the part of x, from the offsets on, that has the size of the other blob."""
    options = draft.layer.message.crop_param
    rank = draft.rank(x)
    if draft.rank(like) != rank:
        raise draft.bad(f"{draft.type(x)} and {draft.type(like)} differ in rank")
    axes = range(draft.axis(x, options.axis), rank)
    offsets = [int(offset) for offset in options.offset] or [0]
    if len(offsets) == 1:
        offsets *= len(axes)
    if len(offsets) != len(axes):
        raise draft.bad(f"expected 1 or {len(axes)} offsets, got {len(offsets)}")
    for axis, offset in zip(axes, offsets, strict=True):
        if draft.dims(x)[axis] - offset < draft.dims(like)[axis]:
            raise draft.bad(
                f"axis {axis} of {draft.type(x)} from {offset} on is too short for "
                f"{draft.type(like)}"
            )
    start = draft.int64(*offsets)
    end = draft.emit("add", start, draft.shape(like, axes[0]))
    return draft.emit("slice", x, start, end, draft.int64(*axes))


@rule("Flatten")
def _flatten(draft: Draft, x: str) -> str:
    options = draft.layer.message.flatten_param
    first, last = draft.axis(x, options.axis), draft.axis(x, options.end_axis)
    if first > last:
        raise draft.bad(f"expected axis before end_axis, got {first} and {last}")
    behind = range(last + 1, draft.rank(x))
    return draft.reshape(x, [*map(Copy, range(first)), -1, *map(Copy, behind)])


@rule("Reshape")
def _reshape(draft: Draft, x: str) -> str:
    """Set new dims for the axes from `axis` on: 0 copies the dim at its place, -1 is the rest."""
    options = draft.layer.message.reshape_param
    rank = draft.rank(x)
    first = draft.axis(x, options.axis, 1)
    end = rank if options.num_axes == -1 else first + options.num_axes
    if not first <= end <= rank:
        raise draft.bad(f"axis and num_axes are outside of {draft.type(x)}")
    dims: list[int | Copy] = []
    for i, dim in enumerate(options.shape.dim):
        if dim == 0 and first + i >= end:
            raise draft.bad(f"dim {i} of the new shape copies an axis that is not there")
        if dim < -1:
            raise draft.bad(f"expected dims of -1 or more, got {dim}")
        dims.append(int(dim) if dim else Copy(first + i))
    return draft.reshape(x, [*map(Copy, range(first)), *dims, *map(Copy, range(end, rank))])


@rule("Permute")
def _permute(draft: Draft, x: str) -> str:
    """Put the axes in the given order, followed by those not named."""
    order = [int(axis) for axis in draft.layer.message.permute_param.order]
    perm = (*order, *(axis for axis in range(draft.rank(x)) if axis not in order))
    if sorted(perm) != list(range(draft.rank(x))):
        raise draft.bad(f"order {order} is none of the axes of {draft.type(x)}")
    return draft.emit("transpose", x, perm=perm)


@rule("ShuffleChannel")
def _shuffle_channel(draft: Draft, x: str) -> str:
    """Transpose the channels as a matrix of `group` rows."""
    group = draft.layer.message.shuffle_channel_param.group
    channels = draft.channels(x)
    if not group or channels % group:
        raise draft.bad(f"{group} groups do not divide {channels} channels")
    rest = range(2, draft.rank(x))
    matrix = draft.reshape(x, [Copy(0), group, channels // group, *map(Copy, rest)])
    perm = (0, 2, 1, *(axis + 1 for axis in rest))
    shuffled = draft.emit("transpose", matrix, perm=perm)
    return draft.emit("reshape", shuffled, draft.shape(x))


@rule("Reorg")
def _reorg(draft: Draft, x: str) -> str:
    """Write Darknet's reorg of YOLOv2: x is read as fewer channels of a larger picture.

    The picture's blocks then become channels, the place in the block first.
    """
    options = draft.layer.message.reorg_param
    stride = int(options.stride)
    if options.reverse:
        raise draft.unsupported("reverse")
    if draft.rank(x) != 4 or not stride or draft.channels(x) % stride**2:
        raise draft.bad(f"stride {stride} does not divide the channels of {draft.type(x)}")
    channels, picture = draft.channels(x), draft.shape(x, 2)
    count, steps = draft.shape(x, 0, 1), draft.int64(stride, stride)
    large = draft.emit("mul", picture, steps)
    target = draft.emit("concat", count, draft.int64(channels // stride**2), large, axis=0)
    y = draft.emit("space_to_depth", draft.emit("reshape", x, target), blocksize=stride)
    small = draft.emit("div", picture, steps)
    target = draft.emit("concat", count, draft.int64(channels * stride**2), small, axis=0)
    return draft.emit("reshape", y, target)


@rule("ArgMax")
def _arg_max(draft: Draft, x: str) -> str:
    """Write the indices of the greatest numbers, as float32, or the numbers; of ties, the last."""
    options = draft.layer.message.argmax_param
    if options.HasField("axis"):
        axis = draft.axis(x, options.axis)
        values, indices = _greatest(draft, x, axis, options.top_k)
        return values if options.out_max_val else indices
    ones = [1] * max(0, draft.rank(x) - 3)
    flat = draft.reshape(x, [Copy(0), 1, -1])
    values, indices = _greatest(draft, flat, 2, options.top_k)
    y = draft.emit("concat", indices, values, axis=1) if options.out_max_val else indices
    return draft.emit("unsqueeze", y, draft.int64(*range(3, 3 + len(ones)))) if ones else y


def _greatest(draft: Draft, x: str, axis: int, count: int) -> tuple[str, str]:
    """Return the `count` greatest along the axis and their indices; of ties, the last is first."""
    if not 1 <= count <= draft.dims(x)[axis]:
        raise draft.bad(f"expected top_k of 1 to {draft.dims(x)[axis]}, got {count}")
    if count == 1:
        indices = draft.emit("arg_max", x, axis=axis, select_last_index=1)
        values = draft.emit("reduce_max", x, draft.int64(axis))
    else:
        last, over = draft.int64(-1), draft.int64(axis)
        backwards = draft.emit("slice", x, last, draft.int64(-_TO_THE_END), over, last)
        values, found = draft.emit_all("top_k", 2, backwards, draft.int64(count), axis=axis)
        length = draft.shape(x, axis, axis + 1)
        indices = draft.emit("sub", draft.emit("sub", length, draft.int64(1)), found)
    return values, draft.emit("cast", indices, to="float32")


@rule("Reduction")
def _reduction(draft: Draft, x: str) -> str:
    options = draft.layer.message.reduction_param
    axes = draft.int64(*range(draft.axis(x, options.axis), draft.rank(x)))
    if options.operation == 2:
        x = draft.emit("abs", x)
    elif options.operation == 3:
        x = draft.emit("mul", x, x)
    op = "reduce_mean" if options.operation == 4 else "reduce_sum"
    return draft.scaled(draft.emit(op, x, axes, keepdims=0), options.coeff)


@rule("Tile")
def _tile(draft: Draft, x: str) -> str:
    options = draft.layer.message.tile_param
    axis = draft.axis(x, options.axis)
    if options.tiles < 1:
        raise draft.bad(f"expected 1 or more tiles, got {options.tiles}")
    repeats = (options.tiles if i == axis else 1 for i in range(draft.rank(x)))
    return draft.emit("tile", x, draft.int64(*repeats))


@rule("Interp", bottoms=(1, 2))
def _interp(draft: Draft, x: str, like: str = "") -> str:
    """Crop, then resize linearly between the corner pixels' centres, to a size or by a factor."""
    options = draft.layer.message.interp_param
    if draft.rank(x) != 4:
        raise draft.bad(f"expected a bottom of 4 axes, got {draft.type(x)}")
    begin, end = options.pad_beg, options.pad_end
    if begin > 0 or end > 0:
        raise draft.unsupported("padding (pad_beg or pad_end above 0)")
    if begin or end:
        cut = [-begin] * 2, [end or _TO_THE_END] * 2
        x = draft.emit("slice", x, *(draft.int64(*each) for each in cut), draft.int64(2, 3))
    shrink, zoom = options.HasField("shrink_factor"), options.HasField("zoom_factor")
    sizes = draft.shape(like or x, 2)
    if not like and options.HasField("height") and options.HasField("width") and shrink == zoom:
        sizes = draft.int64(options.height, options.width)
    elif not like:
        if not shrink and not zoom:
            raise draft.bad("expected height and width, zoom_factor or shrink_factor")
        if options.shrink_factor < 1 or options.zoom_factor < 1:
            raise draft.bad("expected factors of 1 or more")
        one = draft.int64(1)
        sizes = draft.emit("sub", sizes, one)
        sizes = draft.emit("div", sizes, draft.int64(options.shrink_factor))
        sizes = draft.emit("mul", sizes, draft.int64(options.zoom_factor))
        sizes = draft.emit("add", sizes, one)
    return draft.emit(
        "resize",
        x,
        "",
        "",
        draft.emit("concat", draft.shape(x, 0, 2), sizes, axis=0),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )


@rule("Upsample", bottoms=(1, 2))
def _upsample(draft: Draft, x: str, mask: str = "") -> str:
    """Repeat pixels; with the mask of a max pooling, put them back where the maxima were.

    The first is the layer of the YOLO forks, the second that of SegNet.
    """
    options = draft.layer.message.upsample_param
    if draft.rank(x) != 4:
        raise draft.bad(f"expected a bottom of 4 axes, got {draft.type(x)}")
    scales = [options.scale] * 2
    if options.HasField("scale_h") and options.HasField("scale_w"):
        scales = [options.scale_h, options.scale_w]
    if min(scales) < 1:
        raise draft.bad(f"expected scales of 1 or more, got {scales}")
    given = options.HasField("upsample_h") and options.HasField("upsample_w")
    if not mask:
        if given or options.pad_out_h or options.pad_out_w:
            raise draft.unsupported("a size without the mask of a pooling layer")
        return draft.emit(
            "resize",
            x,
            "",
            draft.constant([1, 1, *scales]),
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    if given:
        sizes = draft.int64(options.upsample_h, options.upsample_w)
    else:
        sizes = draft.emit("mul", draft.shape(x, 2), draft.int64(*scales))
        missing = draft.int64(options.pad_out_h, options.pad_out_w)
        sizes = draft.emit("sub", sizes, missing)
    inside = draft.emit("cast", mask, to="int64")
    indices = draft.emit("add", inside, plane_starts(draft, x, sizes))
    shape = draft.emit("concat", draft.shape(x, 0, 2), sizes, axis=0)
    return draft.emit(
        "max_unpool", x, indices, shape, kernel_shape=tuple(scales), strides=tuple(scales)
    )
