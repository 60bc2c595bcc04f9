"""Rearrangements written as reshape, transpose and reshape become one op."""

from __future__ import annotations

import numpy as np

from palmkit.engine.ir import Attr, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_DEPTH_TO_SPACE: dict[tuple[int, ...], str] = {(0, 3, 4, 1, 5, 2): "DCR", (0, 1, 4, 2, 5, 3): "CRD"}
_SPACE_TO_DEPTH = (0, 3, 5, 1, 2, 4)


def recognise_layouts(graph: Graph) -> Graph:
    """Recognise depth_to_space, space_to_depth, and the nearest resize that repeats every pixel."""
    return rewrite(graph, _recognise, ("reshape",))


def _recognise(draft: Draft, node: Node) -> Change:
    middle = draft.sole_producer(node.inputs[0], "transpose", "expand", "tile")
    first = None if middle is None else draft.sole_producer(middle.inputs[0], "reshape")
    if middle is None or first is None:
        return None
    dims = [
        draft.dims(name)
        for name in (first.inputs[0], first.outputs[0], middle.outputs[0], node.outputs[0])
    ]
    x, split, turned, y = dims
    if x is None or split is None or turned is None or y is None or len(x) != 4 or len(y) != 4:
        return None
    if len(split) != 6 or 0 in x or x[0] != y[0]:
        return None
    if middle.op == "transpose":
        return _rearranged(first.inputs[0], node, middle.integers("perm"), x, split, y)
    n, c, h, w = x
    ups = (turned[3], turned[5])
    if split != (n, c, h, 1, w, 1) or turned != (n, c, h, ups[0], w, ups[1]):
        return None
    if y != (n, c, h * ups[0], w * ups[1]):
        return None
    scales = draft.new_constant(f"{node.outputs[0]}/scales", np.array([1, 1, *ups], np.float32))
    attrs = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return [Node("resize", (first.inputs[0], "", scales), node.outputs, attrs, node.name)]


def _rearranged(
    source: str,
    node: Node,
    perm: tuple[int, ...],
    x: tuple[int, ...],
    split: tuple[int, ...],
    y: tuple[int, ...],
) -> Change:
    n, c, h, w = x
    mode = _DEPTH_TO_SPACE.get(perm)
    if mode is not None:
        block = y[2] // h
        depth = (block, block, y[1]) if mode == "DCR" else (y[1], block, block)
        if split != (n, *depth, h, w) or y != (n, y[1], h * block, w * block):
            return None
        attrs: dict[str, Attr] = {"blocksize": block, "mode": mode}
        return [Node("depth_to_space", (source,), node.outputs, attrs, node.name)]
    if perm == _SPACE_TO_DEPTH:
        block = h // y[2] if y[2] else 0
        if not block or split != (n, c, y[2], block, y[3], block):
            return None
        if y != (n, c * block * block, h // block, w // block):
            return None
        return [Node("space_to_depth", (source,), node.outputs, {"blocksize": block}, node.name)]
    return None
