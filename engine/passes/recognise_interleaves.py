"""Channels that are joined, shuffled and cut apart again become interleave, one op."""

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def recognise_interleaves(graph: Graph) -> Graph:
    """Rewrite concat, reshape, transpose, reshape that interleave channels, and slices of it.

    ShuffleNet does this where it joins two halves, shuffles their channels and cuts them into
    halves.
    """
    return rewrite(graph, _recognise, ("reshape", "slice", "split"))


def _recognise(draft: Draft, node: Node) -> Change:
    return _shuffled(draft, node) if node.op == "reshape" else _cut(draft, node)


def _shuffled(draft: Draft, node: Node) -> Change:
    """Match a concat along an axis that is split into (inputs, channels), transposed and joined."""
    middle = draft.sole_producer(node.inputs[0], "transpose")
    first = None if middle is None else draft.sole_producer(middle.inputs[0], "reshape")
    concat = None if first is None else draft.sole_producer(first.inputs[0], "concat")
    if middle is None or first is None or concat is None:
        return None
    dims, split = draft.dims(concat.outputs[0]), draft.dims(first.outputs[0])
    parts = {draft.dims(name) for name in concat.inputs}
    if dims is None or split is None or draft.dims(node.outputs[0]) != dims or len(parts) != 1:
        return None
    axis = concat.integer("axis") % len(dims)
    inputs = len(concat.inputs)
    channels = dims[axis] // inputs
    if split != (*dims[:axis], inputs, channels, *dims[axis + 1 :]):
        return None
    turned = [*range(len(split))]
    turned[axis : axis + 2] = [axis + 1, axis]
    if middle.integers("perm") != tuple(turned):
        return None
    attrs = {"axis": axis, "first": 0, "count": channels}
    return [Node("interleave", concat.inputs, node.outputs, attrs, node.name)]


def _cut(draft: Draft, node: Node) -> Change:
    """Match a slice, or an equal split, that begins and ends with the first input's turn."""
    before = draft.producer(node.inputs[0])
    if before is None or before.op != "interleave" or draft.is_output(node.inputs[0]):
        return None
    axis, inputs, offset = before.integer("axis"), len(before.inputs), before.integer("first")
    starts = _starts(draft, node, axis)
    if starts is None or any(start % inputs for start in starts):
        return None
    cuts: list[Node] = []
    for name, start in zip(node.outputs, starts, strict=True):
        if not name:
            continue
        dims = draft.dims(name)
        if dims is None or dims[axis] % inputs:
            return None
        attrs = {"first": offset + start // inputs, "count": dims[axis] // inputs}
        cut = replace(before, outputs=(name,), attrs={**before.attrs, **attrs}, name=node.name)
        cuts.append(cut)
    return cuts


def _starts(draft: Draft, node: Node, axis: int) -> tuple[int, ...] | None:
    """Return where each output begins; None unless it is cut along this axis alone, with step 1."""
    dims = draft.dims(node.inputs[0])
    if dims is None:
        return None
    if node.op == "split":
        sizes = [draft.dims(name) if name else None for name in node.outputs]
        if node.integer("axis") % len(dims) != axis:
            return None
        if any(size is None for size in sizes):
            return None
        widths = [0, *(size[axis] for size in sizes if size is not None)]
        return tuple(np.cumsum(widths)[:-1].tolist())
    bounds = [draft.constant(name) if name else None for name in (*node.inputs[1:], "", "")[:4]]
    starts, ends, axes, steps = bounds
    if starts is None or ends is None or starts.size != 1:
        return None
    along = 0 if axes is None else int(axes.reshape(-1)[0]) % len(dims)
    if along != axis or (steps is not None and int(steps.reshape(-1)[0]) != 1):
        return None
    return (slice(int(starts.reshape(-1)[0]), None).indices(dims[axis])[0],)
