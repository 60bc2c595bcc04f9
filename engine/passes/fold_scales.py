"""Scaling and shifting by channel folds into the weights of the layer behind it."""

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, has_any, rewrite
from palmkit.engine.passes.weights import (
    by_input_channel,
    is_plain_layer,
    scaled_input,
    shifted_input,
)

_ARITHMETIC = ("mul", "div", "add", "sub")


def fold_scales(graph: Graph) -> Graph:
    """Fold mul and div before a layer into its weights, add and sub into its bias.

    A layer that pads takes in no add: its padding is zero, not zero plus a constant.
    """
    return rewrite(graph, _fold, is_plain_layer) if has_any(graph, _ARITHMETIC) else graph


def _fold(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], *_ARITHMETIC)
    if before is None or node.inputs[0] in node.inputs[1:]:
        return None
    x, operand = before.inputs
    if draft.constant(operand) is None and before.op in ("mul", "add"):
        x, operand = operand, x
    value = draft.constant(operand)
    if value is None or draft.constant(x) is not None or not np.isfinite(value).all():
        return None
    if draft.dims(x) != draft.dims(node.inputs[0]):
        return None
    number = by_input_channel(draft, node, value)
    if number is None or (before.op == "div" and not number.all()):
        return None
    if before.op in ("mul", "div"):
        change = scaled_input(draft, node, number if before.op == "mul" else 1 / number, x)
    else:
        change = shifted_input(draft, node, number if before.op == "add" else -number, x)
    return None if change is None else [change]
