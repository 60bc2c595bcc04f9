"""Small convolutions that read one picture become one convolution followed by a split."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite

_VECTOR_CHANNELS = 8


def merge_heads(graph: Graph) -> Graph:
    """Merge convolutions of one input and one window, with constant weights.

    The split costs a copy of every output. Merging pays where the outputs, one by one, leave vector
    registers half empty: together they must need at most three quarters of them.
    """
    groups: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        weight = graph.constants.get(input_at(node, 1)) if node.op == "conv" else None
        if weight is None or node.integer("group") != 1 or not has_constant_bias(graph, node):
            continue
        key = (node.inputs[0], weight.dtype, weight.shape[1:], window(node))
        groups.setdefault(key, []).append(node)
    paying = [group for group in groups.values() if _pays(graph, group)]
    return merge_groups(graph, paying, _merged) if paying else graph


def merge_groups(
    graph: Graph,
    groups: Sequence[Sequence[Node]],
    merged: Callable[[Draft, Sequence[Node]], Sequence[Node]],
) -> Graph:
    """Put in the place of each group's first node what does the work of the whole group."""
    done: set[int] = set()
    group_of = {id(node): group for group in groups for node in group}

    def merge(draft: Draft, node: Node) -> Change:
        group = group_of.get(id(node))
        if group is None:
            return None
        if id(group) in done:
            return []
        done.add(id(group))
        return merged(draft, group)

    return rewrite(graph, merge, {node.op for group in groups for node in group})


def _pays(graph: Graph, group: Sequence[Node]) -> bool:
    counts = [len(graph.constants[node.inputs[1]]) for node in group]
    apart = sum(-(-count // _VECTOR_CHANNELS) for count in counts)
    return len(group) > 1 and 4 * -(-sum(counts) // _VECTOR_CHANNELS) <= 3 * apart


def _merged(draft: Draft, group: Sequence[Node]) -> list[Node]:
    y = draft.new_value(f"{group[0].outputs[0]}/merged")
    counts = [len(draft.constants[node.inputs[1]]) for node in group]
    sizes = draft.new_constant(f"{y}/sizes", np.array(counts, np.int64))
    outputs = tuple(node.outputs[0] for node in group)
    return [
        joined(draft, group, group[0].inputs[0], y),
        Node("split", (y, sizes), outputs, {"axis": 1}, group[0].name),
    ]


def joined(draft: Draft, group: Sequence[Node], x: str, y: str) -> Node:
    """Return one convolution from x to y with the weights and biases of all, concatenated."""
    weights = [draft.constants[node.inputs[1]] for node in group]
    inputs = [x, draft.new_constant(f"{y}/weights", np.concatenate(weights))]
    if any(input_at(node, 2) for node in group):
        biases: list[Array] = [
            draft.constants[input_at(node, 2)] if input_at(node, 2) else np.zeros(len(w), w.dtype)
            for node, w in zip(group, weights, strict=True)
        ]
        inputs.append(draft.new_constant(f"{y}/bias", np.concatenate(biases)))
    return replace(group[0], inputs=tuple(inputs), outputs=(y,))


def has_constant_bias(graph: Graph, node: Node) -> bool:
    """Return whether the bias, if there is one, is a constant."""
    return not input_at(node, 2) or input_at(node, 2) in graph.constants


def window(node: Node) -> Hashable:
    """Return the attributes that convolutions must share to be merged."""
    return tuple(
        sorted((k, v) for k, v in node.attrs.items() if k not in ("group", "kernel_shape"))
    )
