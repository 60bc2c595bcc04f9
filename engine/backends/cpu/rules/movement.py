"""Ops that move elements: views where the order in memory allows, strided copies elsewhere."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.ops import infer_node
from palmkit.engine.ops.slice_ import cuts
from palmkit.engine.steps.lowering import Lowering, Order, axis_attrs, channels_last, plain
from palmkit.engine.steps.step import View, strides_of


@rule("transpose", moves=True)
def lower_transpose(lowering: Lowering, node: Node) -> None:
    """The same memory, its axes renamed."""
    x = node.inputs[0]
    rank = len(lowering.dims(x))
    perm = node.integers("perm") or tuple(reversed(range(rank)))
    axes = [axis % rank for axis in perm]
    order = lowering.order(x)
    renamed = tuple(axes.index(axis) for axis in order)
    lowering.alias(node.outputs[0], lowering.get(x, order, stored=True), renamed)


@rule("reshape", "flatten", "squeeze", "unsqueeze", moves=True)
def lower_reshape(lowering: Lowering, node: Node) -> None:
    """The same memory once it is C-contiguous, or where space alone is cut up anew."""
    x, y = node.inputs[0], node.outputs[0]
    dims, shape = lowering.dims(x), lowering.dims(y)
    order, last = lowering.order(x), channels_last(len(shape))
    if len(shape) > 2 and order == channels_last(len(dims)) and dims[:2] == shape[:2]:
        lowering.alias(y, lowering.get(x, order, stored=True), last)
    else:
        view = lowering.get(x, plain(len(dims)), stored=True)
        lowering.alias(y, view, plain(len(shape)))


def _axis_strides(view: View, order: Order) -> dict[int, int]:
    """Elements from one index of an axis to the next."""
    return dict(zip(order, strides_of(view.dims), strict=True))


def _paste(
    lowering: Lowering, source: View, target: View, order: Order, starts: dict[int, int]
) -> None:
    """Copy the whole source into the target from `starts` (by axis) on; both lie in `order`."""
    offset = sum(_axis_strides(target, order)[axis] * start for axis, start in starts.items())
    lowering.copy(
        source,
        target,
        source.dims,
        strides_of(source.dims),
        strides_of(target.dims),
        target_offset=offset,
    )


def _cut(
    lowering: Lowering,
    source: View,
    target: View,
    order: Order,
    starts: dict[int, int],
    steps: dict[int, int],
) -> None:
    """Fill the whole target from the source's `starts` on, in `steps` (both by axis)."""
    strides = _axis_strides(source, order)
    lowering.copy(
        source,
        target,
        target.dims,
        [strides[axis] * steps.get(axis, 1) for axis in order],
        strides_of(target.dims),
        source_offset=sum(strides[axis] * start for axis, start in starts.items()),
    )


@rule("concat", moves=True)
def lower_concat(lowering: Lowering, node: Node) -> None:
    """One copy an input."""
    output = node.outputs[0]
    rank = len(lowering.dims(output))
    axis = node.integer("axis") % rank
    computed = [name for name in node.inputs if not lowering.is_constant(name)]
    largest = max(computed, key=lambda name: lowering.type(name).elements, default=None)
    order = lowering.order(largest) if largest is not None else plain(rank)
    dtype = lowering.kept_dtype(output)
    views = [lowering.get(name, order, dtype=dtype) for name in node.inputs]
    y = lowering.put(output, order, dtype)
    start = 0
    for name, view in zip(node.inputs, views, strict=True):
        if lowering.type(name).elements:
            _paste(lowering, view, y, order, {axis: start})
        start += lowering.dims(name)[axis]


@rule("interleave", moves=True)
def lower_interleave(lowering: Lowering, node: Node) -> None:
    """One step."""
    x, y = node.inputs[0], node.outputs[0]
    order = lowering.order(x)
    dtype = lowering.kept_dtype(y)
    views = {
        f"part{i}": lowering.get(name, order, dtype=dtype) for i, name in enumerate(node.inputs)
    }
    position = order.index(node.integer("axis"))
    if not lowering.type(y).elements:
        lowering.put(y, order)
        return
    result = lowering.put(y, order, dtype)
    kept, first = result.dims[position] // len(views), node.integer("first")
    parts = {name: _channels(view, position, first, kept) for name, view in views.items()}
    inner = prod(result.dims[position + 1 :])
    whole = _channels(result, position, 0, result.dims[position])
    lowering.step("interleave", parts, {"y": whole}, {"inner": inner})


def _channels(view: View, position: int, first: int, count: int) -> View:
    """So many elements of one dim, from `first` on; those behind the dim lie with it."""
    inner = prod(view.dims[position + 1 :])
    dims = (*view.dims[:position], count * inner)
    strides = [*view.all_strides[:position], 1]
    return View.of(view.buffer, view.dtype, dims, strides, view.offset + first * inner)


@rule("split", moves=True)
def lower_split(lowering: Lowering, node: Node) -> None:
    """One copy an output."""
    x = node.inputs[0]
    axis = node.integer("axis") % len(lowering.dims(x))
    order = lowering.order(x)
    view = lowering.get(x, order, stored=True)
    start = 0
    parts = infer_node(node, [lowering.types[name] if name else None for name in node.inputs])
    for name, part in zip(node.outputs, parts, strict=False):
        if name:
            _cut(lowering, view, lowering.put(name, order, view.dtype), order, {axis: start}, {})
        start += part.dims[axis]


@rule("slice", moves=True)
def lower_slice(lowering: Lowering, node: Node) -> None:
    """A copy with steps; negative steps walk backwards."""
    x, starts, ends, axes, steps = (*node.inputs, "", "")[:5]
    chosen, stride = (
        lowering.constant_of(name, what) if name else None
        for name, what in ((axes, "axes"), (steps, "steps"))
    )
    first, last = lowering.constant_of(starts, "starts"), lowering.constant_of(ends, "ends")
    found = cuts(lowering.type(x), first, last, chosen, stride)
    begin = {axis: cut.start or 0 for axis, cut in enumerate(found)}
    step = {axis: cut.step or 1 for axis, cut in enumerate(found)}
    order = lowering.order(x)
    view = lowering.get(x, order, stored=True)
    y = lowering.put(node.outputs[0], order, view.dtype)
    if lowering.type(node.outputs[0]).elements:
        _cut(lowering, view, y, order, begin, step)


@rule("pad")
def lower_pad(lowering: Lowering, node: Node) -> None:
    """Fill, then paste; negative pads cut. Other modes gather, axis by axis."""
    x, pads, value, axes = (*node.inputs, "", "")[:4]
    dims = lowering.dims(x)
    amounts = [int(p) for p in lowering.constant_of(pads, "pads").reshape(-1)]
    which = (
        [int(a) % len(dims) for a in lowering.constant_of(axes, "axes").reshape(-1)]
        if axes
        else list(range(len(dims)))
    )
    before = dict(zip(which, amounts[: len(which)], strict=True))
    after = dict(zip(which, amounts[len(which) :], strict=True))
    order = lowering.order(x)
    mode = node.text("mode")
    if mode != "constant":
        tables = {axis: _extended(dims[axis], before[axis], after[axis], mode) for axis in which}
        gather_axes(lowering, node, tables)
        return
    view, y = lowering.get(x, order), lowering.put(node.outputs[0], order)
    fill = lowering.constant_of(value, "constant_value").item() if value else 0
    if fill and (y.dtype == "float16" or float(np.float32(fill)) != fill):
        raise UnsupportedError(f"{fill} of {y.dtype}")
    fill = float(fill)
    if any(amount > 0 for amount in amounts):
        lowering.step("fill", {}, {"y": y}, {"value": fill})
    shape = [max(0, dims[a] + min(before.get(a, 0), 0) + min(after.get(a, 0), 0)) for a in order]
    if 0 in shape:
        return
    from_strides, to_strides = _axis_strides(view, order), _axis_strides(y, order)
    lowering.copy(
        view,
        y,
        shape,
        [from_strides[a] for a in order],
        [to_strides[a] for a in order],
        source_offset=sum(from_strides[a] * max(-n, 0) for a, n in before.items()),
        target_offset=sum(to_strides[a] * max(n, 0) for a, n in before.items()),
    )


def _extended(size: int, before: int, after: int, mode: str) -> Array:
    """Which element of an axis stands where once it is padded."""
    index = np.arange(size, dtype=np.int32)[max(0, -before) : size - max(0, -after)]
    extend: Any = np.pad
    return np.asarray(extend(index, (max(0, before), max(0, after)), mode))


def gather_axes(lowering: Lowering, node: Node, tables: Mapping[int, Array]) -> None:
    """The first output is the first input with its elements along each axis taken by index."""
    x, y = node.inputs[0], node.outputs[0]
    order = lowering.order(x)
    view = lowering.get(x, order)
    if 0 in lowering.dims(y):
        lowering.put(y, order)
        return
    for axis, table in tables.items():
        position = order.index(axis)
        dims = (*view.dims[:position], len(table), *view.dims[position + 1 :])
        taken = lowering.scratch(view.dtype, dims)
        lowering.step(
            "gather",
            {"x": view, "indices": lowering.constant(table)},
            {"y": taken},
            axis_attrs(view.dims, position),
        )
        view = taken
    lowering.alias(y, view, order)


@rule("expand")
def lower_expand(lowering: Lowering, node: Node) -> None:
    """A copy whose repeated axes have stride 0."""
    x, y = node.inputs[0], node.outputs[0]
    dims, shape = lowering.dims(x), lowering.dims(y)
    view = lowering.get(x, plain(len(dims)))
    extra = len(shape) - len(dims)
    strides = [0] * extra + [
        stride if dim > 1 else 0 for stride, dim in zip(strides_of(dims), dims, strict=True)
    ]
    lowering.copy(view, lowering.put(y), shape, strides, strides_of(shape))


@rule("tile")
def lower_tile(lowering: Lowering, node: Node) -> None:
    """A copy over (repeat, dim) pairs of axes, the repeats with stride 0."""
    x, y = node.inputs[0], node.outputs[0]
    dims, shape = lowering.dims(x), lowering.dims(y)
    view, target = lowering.get(x, plain(len(dims))), lowering.put(y)
    pairs: list[int] = []
    from_strides: list[int] = []
    to_strides: list[int] = []
    for dim, size, x_stride, y_stride in zip(
        dims, shape, strides_of(dims), strides_of(shape), strict=True
    ):
        pairs += [size // dim if dim else 0, dim]
        from_strides += [0, x_stride]
        to_strides += [y_stride * dim, y_stride]
    if 0 not in pairs:
        lowering.copy(view, target, pairs, from_strides, to_strides)


@rule("depth_to_space", "space_to_depth", moves=True)
def lower_depth_to_space(lowering: Lowering, node: Node) -> None:
    """One copy over [n, block, block, c, h, w]."""
    x, y = node.inputs[0], node.outputs[0]
    block = node.integer("blocksize")
    forward = node.op == "depth_to_space"
    n, channels, height, width = lowering.dims(x if forward else y)
    depth = channels // (block * block)
    order = channels_last(4)
    source = lowering.get(x, order, stored=True)
    target = lowering.put(y, order, source.dtype)
    deep_view, wide_view = (source, target) if forward else (target, source)
    d, w = _axis_strides(deep_view, order), _axis_strides(wide_view, order)
    if node.text("mode") == "DCR":
        deep_walk = [d[1] * block * depth, d[1] * depth, d[1]]
    else:
        deep_walk = [d[1] * block, d[1], d[1] * block * block]
    deep_strides = [d[0], *deep_walk, d[2], d[3]]
    wide_strides = [w[0], w[2], w[3], w[1], w[2] * block, w[3] * block]
    shape = [n, block, block, depth, height, width]
    walks = (deep_strides, wide_strides) if forward else (wide_strides, deep_strides)
    by_target = sorted(range(6), key=lambda i: -walks[1][i])
    lowering.copy(
        source,
        target,
        [shape[i] for i in by_target],
        [walks[0][i] for i in by_target],
        [walks[1][i] for i in by_target],
    )


@rule("gather")
def lower_gather(lowering: Lowering, node: Node) -> None:
    """Rows of a C-contiguous array by index; a single constant index is a copy."""
    data, indices = node.inputs
    rank = len(lowering.dims(data))
    axis = node.integer("axis") % rank
    view = lowering.get(data, plain(rank))
    lowering.need_dtype(indices, dtypes=("int32", "int64"))
    index = lowering.get(indices, plain(len(lowering.dims(indices))))
    lowering.step(
        "gather",
        {"x": view, "indices": index},
        {"y": lowering.put(node.outputs[0])},
        axis_attrs(lowering.dims(data), axis),
    )
