"""Zero padding moves into the node that reads it."""

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import (
    Change,
    Draft,
    has_any,
    input_at,
    ops_among,
    rewrite,
    with_attrs,
)
from palmkit.engine.passes.signs import is_non_negative
from palmkit.engine.passes.weights import is_convolution


def fold_pads(graph: Graph) -> Graph:
    """Move a pad of zeros into the node that reads it, where that is exact.

    Two such pads become one. Spatial pads go into conv; into max_pool if the picture is known to be
    non-negative; into average_pool if it counts its padding, or has none yet. Channel pads at the
    end are dropped from what a fused_conv adds.
    """
    if not has_any(graph, ("pad",)):
        return graph
    readers = ops_among(graph, is_convolution) | {"pad", "max_pool", "average_pool"}
    return rewrite(graph, _fold, readers)


def _fold(draft: Draft, node: Node) -> Change:
    if node.op == "fused_conv" and input_at(node, 3):
        change = _fold_channels(draft, node)
        if change is not None:
            return change
    if node.op == "pad":
        return _merge(draft, node)
    pad = draft.producer(node.inputs[0])
    amounts = _zero_pads(draft, pad)
    if pad is None or amounts is None or _leaves_a_rest(node):
        return None
    rank = len(amounts) // 2
    begins, ends = amounts[2:rank], amounts[rank + 2 :]
    if any(amounts[:2]) or any(amounts[rank : rank + 2]) or min(amounts) < 0:
        return None
    own = node.integers("pads") or (0,) * (2 * (rank - 2))
    if node.text("auto_pad") not in ("NOTSET", "VALID"):
        return None
    if node.op == "max_pool" and not is_non_negative(draft, pad.inputs[0]):
        return None
    if node.op == "average_pool":
        if any(own) and not node.integer("count_include_pad"):
            return None
        node = with_attrs(node, count_include_pad=1)
    pads = tuple(x + y for x, y in zip(own, (*begins, *ends), strict=True))
    if node.op == "max_pool" and not _every_window_sees_the_picture(node, pads):
        return None
    reads_pad = (pad.inputs[0], *node.inputs[1:])
    return [with_attrs(replace(node, inputs=reads_pad), auto_pad=None, pads=pads)]


def _leaves_a_rest(node: Node) -> bool:
    """Return whether a pool's last windows may reach past the picture."""
    return traits_of(node.op).pools and node.integer("ceil_mode") != 0


def _merge(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], "pad")
    outer, inner = _zero_pads(draft, node), _zero_pads(draft, before)
    if before is None or outer is None or inner is None or min(*outer, *inner) < 0:
        return None
    total = np.add(outer, inner).astype(np.int64)
    pads = draft.new_constant(f"{node.outputs[0]}/pads", total)
    return [replace(node, inputs=(before.inputs[0], pads, *node.inputs[2:]))]


def _fold_channels(draft: Draft, node: Node) -> Change:
    pad = draft.producer(input_at(node, 3))
    amounts = _zero_pads(draft, pad)
    if pad is None or amounts is None or min(amounts) < 0:
        return None
    rank = len(amounts) // 2
    if any(amount for place, amount in enumerate(amounts) if place != rank + 1):
        return None
    return [replace(node, inputs=(*node.inputs[:3], pad.inputs[0], *node.inputs[4:]))]


def _zero_pads(draft: Draft, pad: Node | None) -> tuple[int, ...] | None:
    """Return the amounts of a pad with constant zeros over all axes."""
    if pad is None or pad.op != "pad" or pad.text("mode") != "constant":
        return None
    amounts, fill = draft.constant(input_at(pad, 1)), draft.constant(input_at(pad, 2))
    fills_zeros = not input_at(pad, 2) or (fill is not None and not fill.any())
    if amounts is None or not fills_zeros or input_at(pad, 3):
        return None
    return tuple(int(amount) for amount in amounts)


def _every_window_sees_the_picture(pool: Node, pads: tuple[int, ...]) -> bool:
    """Return whether no window lies in the padding alone.

    The padding of max_pool is the lowest number, not 0.
    """
    kernel = pool.integers("kernel_shape")
    undilated = all(dilation == 1 for dilation in pool.integers("dilations"))
    return undilated and all(pad < size for pad, size in zip(pads, kernel * 2, strict=True))
