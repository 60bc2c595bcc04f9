"""Concats and splits that undo each other are removed."""

from __future__ import annotations

from dataclasses import replace

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def cancel_concats(graph: Graph) -> Graph:
    """Remove a concat of all parts of a split, a split of a concat, and a concat in a concat."""
    return rewrite(graph, _cancel, ("concat", "split"))


def _cancel(draft: Draft, node: Node) -> Change:
    axis = _axis(draft, node)
    if axis is None:
        return None
    if node.op == "split":
        return _rejoined(draft, node, axis)
    source = draft.producer(node.inputs[0])
    if source is not None and source.op == "split" and node.inputs == source.outputs:
        return {node.outputs[0]: source.inputs[0]} if _axis(draft, source) == axis else None
    parts: list[str] = []
    for name in node.inputs:
        inner = draft.sole_producer(name, "concat")
        same = inner is not None and _axis(draft, inner) == axis
        parts += inner.inputs if inner is not None and same else (name,)
    return [replace(node, inputs=tuple(parts))] if len(parts) > len(node.inputs) else None


def _rejoined(draft: Draft, node: Node, axis: int) -> Change:
    """Return the parts of a concat, if the split cuts where they meet."""
    joined = draft.producer(node.inputs[0])
    if joined is None or joined.op != "concat" or _axis(draft, joined) != axis:
        return None
    if len(joined.inputs) != len(node.outputs):
        return None
    for before, after in zip(joined.inputs, node.outputs, strict=True):
        old, new = draft.dims(before), draft.dims(after)
        if old is None or new is None or old[axis] != new[axis]:
            return None
    return dict(zip(node.outputs, joined.inputs, strict=True))


def _axis(draft: Draft, node: Node) -> int | None:
    """Return the axis, counted from the front; None if it is not known."""
    axis = node.integer("axis")
    if axis >= 0:
        return axis
    dims = draft.dims(node.inputs[0])
    return None if dims is None else axis + len(dims)
