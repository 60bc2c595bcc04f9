"""Slices and concats are merged, and removed where they undo each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_Cut = dict[int, range]


def merge_slices(graph: Graph) -> Graph:
    """Merge slice of slice, slice of one part of a concat, concat of concat, concat of slices.

    A split with unread outputs becomes slices: the others need no copy.
    """
    return rewrite(graph, _merge, ("slice", "split", "concat"))


def _merge(draft: Draft, node: Node) -> Change:
    if node.op == "concat":
        return _joined_again(draft, node) or _concat(draft, node)
    return _slice(draft, node) if node.op == "slice" else _split(draft, node)


def _slice(draft: Draft, node: Node) -> Change:
    part = _of_one_part(draft, node)
    if part is not None:
        return [part]
    before = draft.sole_producer(node.inputs[0], "slice")
    inner = None if before is None else _cut(draft, before)
    outer = _cut(draft, node)
    if before is None or inner is None or outer is None:
        return None
    cut = {**inner}
    for axis, kept in outer.items():
        cut[axis] = inner[axis][kept.start : _stop(kept) : kept.step] if axis in inner else kept
    return [_sliced(draft, node, before.inputs[0], cut)]


def _of_one_part(draft: Draft, node: Node) -> Node | None:
    """Return the slice of a concat as the slice of the one input that it cuts from."""
    before, dims, cut = (
        draft.producer(node.inputs[0]),
        draft.dims(node.inputs[0]),
        _cut(draft, node),
    )
    if before is None or before.op != "concat" or dims is None or not cut:
        return None
    axis = _axis(before, len(dims))
    if axis not in cut or not len(cut[axis]):
        return None
    start = 0
    for name in before.inputs:
        part = draft.dims(name)
        if part is None:
            return None
        end = start + part[axis]
        if start <= min(cut[axis]) and max(cut[axis]) < end:
            kept = cut[axis]
            moved = range(kept.start - start, kept.stop - start, kept.step)
            return _sliced(draft, node, name, {**cut, axis: moved})
        start = end
    return None


def _split(draft: Draft, node: Node) -> Change:
    if all(draft.reads(name) for name in node.outputs if name):
        return None
    axis = node.integer("axis")
    slices: list[Node] = []
    start = 0
    for name in node.outputs:
        dims = draft.dims(name) if name else None
        if dims is None:
            return None
        end = start + dims[axis]
        if draft.reads(name):
            one = replace(node, op="slice", outputs=(name,))
            slices.append(
                _sliced(draft, one, node.inputs[0], {axis % len(dims): range(start, end)})
            )
        start = end
    return slices


def _sliced(draft: Draft, node: Node, x: str, cut: _Cut) -> Node:
    """Return the slice of x that writes what `node` does."""
    kept = {axis: each if len(each) else range(0) for axis, each in sorted(cut.items())}
    ends = [_stop(each) for each in kept.values()]
    numbers = {
        "starts": [each.start for each in kept.values()],
        "ends": [np.iinfo(np.int64).min if end is None else end for end in ends],
        "axes": [*kept],
        "steps": [each.step for each in kept.values()],
    }
    inputs = [
        draft.new_constant(f"{node.outputs[0]}/{what}", np.array(values, np.int64))
        for what, values in numbers.items()
    ]
    return Node("slice", (x, *inputs), node.outputs, name=node.name)


def _stop(kept: range) -> int | None:
    """Return the end as Python's slices have it: None where walking backwards passes the first."""
    return None if kept.stop < 0 else kept.stop


def _cut(draft: Draft, node: Node) -> _Cut | None:
    """Return what a slice keeps of each axis that it names; None if that is not known."""
    dims = draft.dims(node.inputs[0])
    values = [draft.constant(name) if name else None for name in node.inputs[1:]]
    if dims is None or any(n and v is None for n, v in zip(node.inputs[1:], values, strict=True)):
        return None
    starts, ends, axes, steps = ([v if v is None else v.tolist() for v in values] + [None, None])[
        :4
    ]
    if starts is None or ends is None:
        return None
    cut: _Cut = {}
    for place, start in enumerate(starts):
        axis = (axes[place] if axes is not None else place) % len(dims)
        step = steps[place] if steps is not None else 1
        end: int | None = ends[place]
        if step < 0 and end is not None and end < -dims[axis]:
            end = None
        cut[axis] = range(dims[axis])[start:end:step]
    return cut


def _concat(draft: Draft, node: Node) -> Change:
    """Concatenate what the inner concat joins, too."""
    dims = draft.dims(node.outputs[0])
    rank = len(dims) if dims is not None else None
    axis = _axis(node, rank)
    inputs: list[str] = []
    for name in node.inputs:
        inner = draft.sole_producer(name, "concat")
        same = inner is not None and _axis(inner, rank) == axis
        inputs += inner.inputs if inner is not None and same else (name,)
    return None if len(inputs) == len(node.inputs) else [replace(node, inputs=tuple(inputs))]


def _joined_again(draft: Draft, node: Node) -> Change:
    """Drop a concat of all parts of a split, or of adjacent slices that make up the whole."""
    first = draft.producer(node.inputs[0])
    dims = draft.dims(node.outputs[0])
    if first is None or first.op not in ("split", "slice") or dims is None:
        return None
    x, axis = first.inputs[0], _axis(node, len(dims))
    if draft.dims(x) != dims:
        return None
    if first.op == "split":
        whole = first.outputs == node.inputs and _axis(first, len(dims)) == axis
        return {node.outputs[0]: x} if whole else None
    end = 0
    for name in node.inputs:
        part = draft.producer(name)
        cut = _cut(draft, part) if part is not None and part.op == "slice" else None
        if part is None or cut is None or part.inputs[0] != x or axis not in cut:
            return None
        if cut[axis].step != 1 or cut[axis].start != end:
            return None
        if any(kept != range(dims[other]) for other, kept in cut.items() if other != axis):
            return None
        end = cut[axis].stop
    return {node.outputs[0]: x} if end == dims[axis] else None


def _axis(node: Node, rank: int | None) -> int:
    axis = node.integer("axis")
    return axis % rank if rank else axis
