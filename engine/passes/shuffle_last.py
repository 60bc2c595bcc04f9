"""Channels are shuffled where they are adjacent in memory: as the last axis."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, has_any, rewrite


def shuffle_last(graph: Graph) -> Graph:
    """Put reshape, transpose, reshape that only reorder channels between two layout changes.

    Images lie channels-last on most backends: there the layout changes cost nothing, and three
    copies become one.
    """
    return rewrite(graph, _move, ("reshape",)) if has_any(graph, ("transpose",)) else graph


def _move(draft: Draft, node: Node) -> Change:
    middle = draft.sole_producer(node.inputs[0], "transpose")
    first = draft.sole_producer(middle.inputs[0], "reshape") if middle is not None else None
    if middle is None or first is None:
        return None
    dims, split = draft.dims(first.inputs[0]), draft.dims(first.outputs[0])
    if dims is None or split is None or draft.dims(node.outputs[0]) != dims or len(dims) < 3:
        return None
    batch, channels, *space = dims
    parts = _parts(split, batch, channels, prod(space))
    perm = middle.integers("perm")
    if parts is None or prod(space) < 2 or len(perm) != len(split):
        return None
    order = perm[1 : 1 + len(parts)]
    rest = tuple(range(1 + len(parts), len(split)))
    if perm[0] != 0 or perm[1 + len(parts) :] != rest or order == tuple(sorted(order)):
        return None
    lead = len(dims) - 1
    last = (0, *range(2, len(dims)), 1)
    inner = (*range(lead), *(lead + axis - 1 for axis in order))
    y = node.outputs[0]
    names = [draft.new_value(f"{y}/{what}") for what in ("last", "split", "shuffled", "joined")]
    shapes = [
        draft.new_constant(f"{y}/shape", np.array([batch, *space, *end], np.int64))
        for end in (parts, [channels])
    ]
    return [
        Node("transpose", first.inputs[:1], (names[0],), {"perm": last}, first.name),
        replace(first, inputs=(names[0], shapes[0]), outputs=(names[1],), attrs={}),
        replace(middle, inputs=(names[1],), outputs=(names[2],), attrs={"perm": inner}),
        replace(node, inputs=(names[2], shapes[1]), outputs=(names[3],), attrs={}),
        Node("transpose", (names[3],), (y,), {"perm": (0, lead, *range(1, lead))}, node.name),
    ]


def _parts(
    split: tuple[int, ...], batch: int, channels: int, pixels: int
) -> tuple[int, ...] | None:
    """Return the dims into which the channels are split; None if other axes are split, too."""
    if not split or split[0] != batch or not channels * pixels:
        return None
    for end in range(2, len(split) + 1):
        if prod(split[1:end]) == channels and prod(split[end:]) == pixels:
            return split[1:end]
    return None
