"""Removing channels from a graph: every array and size that has them becomes smaller."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from palmkit.engine.compress.channel_rules import pad_amounts, slice_bounds
from palmkit.engine.compress.channels import Channels, Labelled
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Graph, Node, check, fresh_name, value_names
from palmkit.engine.ops import infer_types
from palmkit.engine.passes.rewrite import input_at, with_attrs
from palmkit.engine.passes.weights import groups_of, kind_of


def narrow(channels: Channels, gone: Collection[int]) -> Graph:
    """Return the graph without the channels of some roots of `channels.free`.

    It computes what `masked` does.
    Raises ModelError for a channel that has to stay, and if a value would have none left.
    """
    _check(channels, gone)
    return _Cutter(channels, frozenset(gone)).cut()


def masked(channels: Channels, gone: Collection[int]) -> Graph:
    """Return the graph of the same size that ignores those channels: their columns are 0."""
    _check(channels, gone)
    graph = channels.graph
    nodes, constants, taken = list(graph.nodes), dict(graph.constants), value_names(graph)
    for slot in channels.slots:
        zero = np.isin(channels.roots(slot.labels), list(gone))
        if slot.role != "reads" or not zero.any():
            continue
        name = nodes[slot.node].inputs[slot.place]
        value = constants[name].copy()
        np.moveaxis(value, slot.axis, 0)[zero] = 0
        nodes[slot.node] = _with_constant(nodes[slot.node], slot.place, value, constants, taken)
    return _finished(graph, nodes, constants)


def _check(channels: Channels, gone: Collection[int]) -> None:
    wrong = set(gone) - channels.free
    if wrong:
        raise ModelError(f"channels that have to stay: {sorted(wrong)[:8]}")
    for name, labelled in channels.values.items():
        if labelled.labels and np.isin(channels.roots(labelled.labels), list(gone)).all():
            raise ModelError(f"value {name}: expected a channel to stay, got none")


def _with_constant(
    node: Node, place: int, value: Array, constants: dict[str, Array], taken: set[str]
) -> Node:
    """Return the node reading a new constant instead."""
    value = np.ascontiguousarray(value)
    value.flags.writeable = False
    name = fresh_name(taken, node.inputs[place])
    constants[name] = value
    return replace(node, inputs=(*node.inputs[:place], name, *node.inputs[place + 1 :]))


def _finished(graph: Graph, nodes: list[Node], constants: dict[str, Array]) -> Graph:
    read = {name for node in nodes for name in node.inputs} | set(graph.outputs)
    kept = {name: value for name, value in constants.items() if name in read}
    made = graph.with_nodes(tuple(nodes), kept)
    check(made)
    infer_types(made)
    return made


class _Cutter:
    def __init__(self, channels: Channels, gone: frozenset[int]) -> None:
        self.channels, self.gone = channels, gone
        self.nodes = list(channels.graph.nodes)
        self.constants = dict(channels.graph.constants)
        self.taken = value_names(channels.graph)

    def kept(self, labels: tuple[int, ...]) -> Array:
        """Return the places that stay."""
        return np.flatnonzero(~np.isin(self.channels.roots(labels), list(self.gone)))

    def cut(self) -> Graph:
        for slot in self.channels.slots:
            kept = self.kept(slot.labels)
            if len(kept) < len(slot.labels):
                name = self.nodes[slot.node].inputs[slot.place]
                value = np.take(self.constants[name], kept, slot.axis)
                self.set(slot.node, slot.place, value)
        for number, node in enumerate(self.channels.graph.nodes):
            x = self.channels.values.get(input_at(node, 0))
            if x is not None:
                self.resize(number, node, x)
        return _finished(self.channels.graph, self.nodes, self.constants)

    def set(self, number: int, place: int, value: Array) -> None:
        node = self.nodes[number]
        self.nodes[number] = _with_constant(node, place, value, self.constants, self.taken)

    def resize(self, number: int, node: Node, x: Labelled) -> None:
        """Adapt the sizes that a node has in its attributes and constants."""
        inside = [name for name in (node.inputs[0], *node.outputs) if name in self.channels.values]
        labels = [self.channels.values[name].labels for name in inside]
        if all(len(self.kept(each)) == len(each) for each in labels):
            return
        y = self.channels.values.get(node.outputs[0])
        if kind_of(node) is not None:
            if groups_of(node) > 1:
                count = len(self.kept(x.labels))
                self.nodes[number] = with_attrs(self.nodes[number], group=count)
        elif node.op == "split":
            parts = [self.channels.values.get(name) for name in node.outputs]
            rank = self.channels.rank(node.inputs[0])
            assert rank is not None
            if node.integer("axis") % rank == x.axis:
                counts = [len(self.kept(part.labels)) for part in parts if part is not None]
                self.set(number, 1, np.array(counts, np.int64))
        elif node.op == "slice":
            self.move_bounds(number, node, x)
        elif node.op == "pad" and y is not None:
            self.move_pads(number, node, x, y)
        elif y is not None and node.op in ("reshape", "resize"):
            place = 1 if node.op == "reshape" else 3
            sizes_name = input_at(node, place)
            if sizes_name in self.channels.graph.constants:
                sizes = self.channels.graph.constants[sizes_name].copy()
                if sizes.size and sizes[y.axis] > 0:
                    sizes[y.axis] = len(self.kept(y.labels))
                    self.set(number, place, sizes)

    def move_bounds(self, number: int, node: Node, x: Labelled) -> None:
        bounds = slice_bounds(self.channels, node, x.axis)
        rank = self.channels.rank(node.inputs[0])
        assert bounds is not None and rank is not None
        kept = self.kept(x.labels)
        constants = self.channels.graph.constants
        axes = self.channels.constant(input_at(node, 3)) if input_at(node, 3) else None
        for place, bound in enumerate(bounds, 1):
            value = constants.get(node.inputs[place])
            if value is None:
                return
            along = np.arange(len(value)) if axes is None else axes % rank
            if (along == x.axis).any():
                moved = value.copy()
                moved[along == x.axis] = int((kept < bound).sum())
                self.set(number, place, moved)

    def move_pads(self, number: int, node: Node, x: Labelled, y: Labelled) -> None:
        amounts = pad_amounts(self.channels, node, x.axis)
        rank = self.channels.rank(node.inputs[0])
        assert amounts is not None and rank is not None
        if not any(amounts):
            return
        before, after = amounts
        pads = self.channels.graph.constants[node.inputs[1]].copy()
        at = x.axis
        if input_at(node, 3):
            axes = self.channels.constant(node.inputs[3])
            assert axes is not None
            at = (axes % rank).tolist().index(x.axis)
        pads[at] = len(self.kept(y.labels[:before]))
        pads[at + len(pads) // 2] = (
            len(self.kept(y.labels[len(y.labels) - after :])) if after else 0
        )
        self.set(number, 1, pads)
