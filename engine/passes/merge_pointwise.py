"""Two consecutive 1x1 convolutions become one, where that is less work."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite


def merge_pointwise(graph: Graph) -> Graph:
    """Merge conv of conv, ungrouped and unpadded, with nothing between them."""
    return rewrite(graph, _merge, ("conv",))


def _merge(draft: Draft, node: Node) -> Change:
    before = draft.sole_producer(node.inputs[0], "conv")
    first, second = None if before is None else _weights(draft, before), _weights(draft, node)
    if (
        before is None
        or first is None
        or second is None
        or any(n > 1 for n in node.integers("strides"))
    ):
        return None
    (v, a), (w, b) = first, second
    if w.shape[0] * v.shape[1] > w.size + v.size:
        return None
    rank = draft.constants[node.inputs[1]].ndim
    dtype = draft.constants[node.inputs[1]].dtype
    weight = (w @ v).astype(dtype).reshape(len(w), v.shape[1], *[1] * (rank - 2))
    y = node.outputs[0]
    inputs = [before.inputs[0], draft.new_constant(f"{y}/weights", weight)]
    if input_at(node, 2) or input_at(before, 2):
        inputs.append(draft.new_constant(f"{y}/bias", (w @ a + b).astype(dtype)))
    return [replace(before, inputs=tuple(inputs), outputs=node.outputs)]


def _weights(draft: Draft, conv: Node) -> tuple[Array, Array] | None:
    """Return the weights as a float64 matrix, and the bias; None unless it is a 1x1 convolution."""
    weight, bias = draft.constant(conv.inputs[1]), draft.constant(input_at(conv, 2))
    if weight is None or prod(weight.shape[2:]) != 1 or conv.integer("group") != 1:
        return None
    if any(conv.integers("pads")) or (input_at(conv, 2) and bias is None):
        return None
    added = np.zeros(len(weight)) if bias is None else bias.astype(np.float64)
    return weight.reshape(weight.shape[:2]).astype(np.float64), added
