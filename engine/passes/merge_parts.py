"""An op that does the same to every part of a split is done once, before the split."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from palmkit.engine.ir import Graph, Node, consumers
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.merge_heads import has_constant_bias, joined, merge_groups, window
from palmkit.engine.passes.rewrite import Draft, has_any, input_at, with_attrs


def merge_parts(graph: Graph) -> Graph:
    """Merge depthwise convolutions and activations of parts of the channels with one reader."""
    if not has_any(graph, ("split",)):
        return graph
    readers = consumers(graph)
    groups: list[list[Node]] = []
    for split in graph.nodes:
        if split.op != "split" or not all(split.outputs) or {*split.outputs} & {*graph.outputs}:
            continue
        each = [readers.get(name, []) for name in split.outputs]
        group = [nodes[0] for nodes in each if len(nodes) == 1]
        kinds = {_kind(graph, node) for node in group}
        if len(group) != len(each) or len(group) < 2 or len(kinds) > 1 or None in kinds:
            continue
        if split.integer("axis") == 1 or group[0].op != "conv":
            groups.append(group)
    return merge_groups(graph, groups, _merged) if groups else graph


def _kind(graph: Graph, node: Node) -> Hashable | None:
    """Return a key that is equal for nodes that do the same to each channel; None for others."""
    if traits_of(node.op).is_unary:
        numbers = [graph.constants.get(name) for name in node.inputs[1:] if name]
        if any(number is None for number in numbers):
            return None
        bounds = tuple(number.tobytes() for number in numbers if number is not None)
        return node.op, bounds, tuple(map(bool, node.inputs)), tuple(sorted(node.attrs.items()))
    weight = graph.constants.get(input_at(node, 1)) if node.op == "conv" else None
    if weight is None or weight.shape[1] != 1 or not has_constant_bias(graph, node):
        return None
    return (weight.shape[2:], window(node)) if node.integer("group") == len(weight) else None


def _merged(draft: Draft, group: Sequence[Node]) -> list[Node]:
    split = draft.producer(group[0].inputs[0])
    assert split is not None
    by_part = {node.inputs[0]: node for node in group}
    in_order = [by_part[name] for name in split.outputs]
    y = draft.new_value(f"{group[0].outputs[0]}/merged")
    if group[0].op == "conv":
        node = joined(draft, in_order, split.inputs[0], y)
        node = with_attrs(node, group=len(draft.constants[node.inputs[1]]))
    else:
        node = replace(group[0], inputs=(split.inputs[0], *group[0].inputs[1:]), outputs=(y,))
    outputs = tuple(each.outputs[0] for each in in_order)
    return [node, replace(split, inputs=(y, *split.inputs[1:]), outputs=outputs)]
