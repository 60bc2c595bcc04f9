"""How passes change a graph: one node at a time, each replaced by what computes the same.

A rule sees a node and the draft: the nodes before it, already rewritten, and how often each value
is read. A pass is `rewrite(graph, rule)`. Nodes that nobody reads any more are removed at once.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from palmkit.engine.cached import cached
from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.ir import Array, Attr, Graph, Known, Node, Type, fresh_name, value_names
from palmkit.engine.ops import infer_outputs, infer_types, traits_of
from palmkit.engine.ops.traits import Traits

Change: TypeAlias = "Sequence[Node] | Mapping[str, str] | None"
Rule: TypeAlias = Callable[["Draft", Node], Change]
Ops: TypeAlias = "Collection[str] | Callable[[Traits], bool]"


def rewrite(graph: Graph, rule: Rule, ops: Ops) -> Graph:
    """Offer every node of one of `ops`, or of an op with such traits, to `rule`, in order.

    The rule returns None (keep the node), nodes that replace it and write its outputs, or a mapping
    output -> value that already holds the same. Returns the graph itself if nothing changes.
    """
    chosen = ops_among(graph, ops)
    return Draft(graph).rewritten(rule, chosen) if chosen else graph


@dataclass(frozen=True)
class Uses:
    """Where the values of a graph are written and how often they are read, and which ops it has.

    places: the index in `nodes` of a value's writer. reads: how often a value is read, being a
    graph output counted as one. is_all_read: whether each node writes something that is read.
    """

    places: dict[str, int]
    reads: Counter[str]
    ops: frozenset[str]
    is_all_read: bool

    @staticmethod
    def of(graph: Graph) -> Uses:
        """Return the uses of a graph; counted once, since many passes leave a graph as it is."""
        uses: Uses | None = graph.__dict__.get("_uses")
        if uses is None:
            uses = graph.__dict__["_uses"] = Uses._counted(graph)
        return uses

    @staticmethod
    def _counted(graph: Graph) -> Uses:
        places: dict[str, int] = {}
        read = [*graph.outputs]
        for place, node in enumerate(graph.nodes):
            read += node.inputs
            for name in node.outputs:
                places[name] = place
        reads = Counter(read)
        del reads[""]
        places.pop("", None)
        is_all_read = all(any(map(reads.get, node.outputs)) for node in graph.nodes)
        return Uses(places, reads, frozenset([node.op for node in graph.nodes]), is_all_read)


def ops_among(graph: Graph, ops: Ops) -> frozenset[str]:
    """Return the ops of the graph that are among `ops`, or have such traits."""
    present = Uses.of(graph).ops
    if callable(ops):
        return frozenset([name for name in present if ops(traits_of(name))])
    return present.intersection(ops)


def has_any(graph: Graph, ops: Ops) -> bool:
    """Return whether some node is one of `ops`, or of an op with such traits."""
    return bool(ops_among(graph, ops))


def is_unary(traits: Traits) -> bool:
    """Return whether the op is an element-wise one of one value."""
    return traits.is_unary


def input_at(node: Node, place: int) -> str:
    """Return the name of an input; "" if it is left out."""
    return node.inputs[place] if place < len(node.inputs) else ""


def with_attrs(node: Node, **attrs: Attr | None) -> Node:
    """Return the node with some attributes set; None removes one."""
    merged = {key: value for key, value in {**node.attrs, **attrs}.items() if value is not None}
    return replace(node, attrs=merged)


class Draft:
    """A graph while a pass goes through it.

    Up to the first change the nodes are the graph's, of which those before `_visited` count, and
    the uses are shared with it.
    """

    def __init__(self, graph: Graph) -> None:
        """Start with no node visited."""
        uses = Uses.of(graph)
        self._graph = graph
        self.constants: dict[str, Array] = dict(graph.constants)
        self._nodes: list[Node | None] = [*graph.nodes]
        self._places = uses.places
        self._reads = uses.reads
        self._visited = 0
        self._sources: dict[str, str] = {}
        self._typed = 0
        self._has_changed = False
        if not uses.is_all_read:
            self._begin_change(0)

    def rewritten(self, rule: Rule, chosen: Collection[str]) -> Graph:
        """Offer the nodes of the chosen ops to the rule, and return the resulting graph."""
        for place, node in enumerate(self._graph.nodes):
            if self._has_changed:
                self._visit(node, rule if node.op in chosen else None)
            elif node.op in chosen:
                self._visited = place
                change = self._ask(rule, node)
                if change is not None:
                    self._begin_change(place)
                    self._apply(node, change)
        return self._finish()

    def _begin_change(self, visited: int) -> None:
        """Go on with copies, of the nodes that were visited and their uses."""
        self._has_changed = True
        del self._nodes[visited:]
        self._places = {name: place for name, place in self._places.items() if place < visited}
        self._reads = self._reads.copy()
        self._visited = sys.maxsize

    def producer(self, name: str) -> Node | None:
        """Return the node that writes a value, among those before the visited one."""
        place = self.place(name)
        return None if place < 0 else self._nodes[place]

    def place(self, name: str) -> int:
        """Return where in running order a value is written; -1 for inputs and constants."""
        place = self._places.get(name, -1)
        return place if place < self._visited else -1

    def reads(self, name: str) -> int:
        """Return how often a value is read, being a graph output counted as one."""
        return self._reads[name]

    def sole_producer(self, name: str, *ops: str) -> Node | None:
        """Return the node that writes a value, if it is one of `ops` and has this reader only."""
        node = self.producer(name)
        if node is None or node.op not in ops:
            return None
        return self._read_once(node, name)

    def sole_producer_with(self, name: str, test: Callable[[Traits], bool]) -> Node | None:
        """Return the node that writes a value, if its op has such traits and one reader."""
        node = self.producer(name)
        if node is None or not test(traits_of(node.op)):
            return None
        return self._read_once(node, name)

    def _read_once(self, node: Node, name: str) -> Node | None:
        if self._reads[name] != 1:
            return None
        return node if len(node.outputs) == 1 or sum(map(bool, node.outputs)) == 1 else None

    def is_output(self, name: str) -> bool:
        """Return whether the value is an output of the graph."""
        return name in self._graph.outputs

    def constant(self, name: str) -> Array | None:
        """Return a constant's value."""
        return self.constants.get(name)

    @cached
    def _taken(self) -> set[str]:
        return value_names(self._graph)

    @cached
    def _types(self) -> dict[str, Type]:
        return infer_types(self._graph)

    def type(self, name: str) -> Type | None:
        """Return the type of a value if it is known, all dims numbers."""
        if name in self.constants:
            return Known.of(self.constants[name])
        types = self._types
        visited = min(self._visited, len(self._nodes))
        while name not in types and self._typed < visited:
            node = self._nodes[self._typed]
            self._typed += 1
            if node is None or all(each in types for each in node.outputs if each):
                continue
            inputs = [self.type(each) if each else None for each in node.inputs]
            if all(type is not None or not n for type, n in zip(inputs, node.inputs, strict=True)):
                inferred = infer_outputs(node, inputs)
                types.update({n: t for n, t in zip(node.outputs, inferred, strict=False) if n})
        known = types.get(name)
        return known if known is not None and known.is_static else None

    def dims(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value if it is known."""
        type = self.type(name)
        return None if type is None else type.dims

    def new_value(self, stem: str) -> str:
        """Return a value name that is free."""
        return fresh_name(self._taken, stem)

    def new_constant(self, stem: str, value: Array) -> str:
        """Add a constant to the graph and return its name."""
        name = self.new_value(stem)
        value = np.array(value, order="C")
        value.flags.writeable = False
        self.constants[name] = value
        return name

    def _visit(self, node: Node, rule: Rule | None) -> None:
        """Offer one node to the rule, if there is one, and apply what it returns."""
        if self._sources and not self._sources.keys().isdisjoint(node.inputs):
            inputs = tuple(self._sources.get(name, name) for name in node.inputs)
            node = replace(node, inputs=inputs)
        if not self._is_read(node):
            self._release(node)
            return
        change = None if rule is None else self._ask(rule, node)
        if change is None:
            self._append(node)
        else:
            self._apply(node, change)

    def _ask(self, rule: Rule, node: Node) -> Change:
        try:
            return rule(self, node)
        except PalmError:
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError) as error:
            raise ModelError(f"node {node.label}: {node.op} is malformed: {error}") from error

    def _apply(self, node: Node, change: Sequence[Node] | Mapping[str, str]) -> None:
        if isinstance(change, Mapping):
            self._forward(node, change)
        else:
            for new in change:
                self._reads.update(name for name in new.inputs if name)
                self._append(new)
            self._release(node)

    def _finish(self) -> Graph:
        """Return the graph of the nodes kept, with the constants they read."""
        if not self._has_changed:
            return self._graph
        reads = self._reads.get
        constants = {name: value for name, value in self.constants.items() if reads(name)}
        nodes = tuple(node for node in self._nodes if node is not None)
        if nodes == self._graph.nodes and constants.keys() == self._graph.constants.keys():
            return self._graph
        return self._graph.with_nodes(nodes, constants)

    def _is_read(self, node: Node) -> bool:
        return any(map(self._reads.get, node.outputs))

    def _append(self, node: Node) -> None:
        for name in node.outputs:
            if name:
                self._places[name] = len(self._nodes)
        self._nodes.append(node)

    def _release(self, node: Node) -> None:
        """Uncount the node's reads; nodes that only it read are removed, too."""
        leaving = [node]
        while leaving:
            for name in leaving.pop().inputs:
                if not name:
                    continue
                self._reads[name] -= 1
                source = self.producer(name)
                if source is not None and not self._is_read(source):
                    self._nodes[self._places[name]] = None
                    for each in source.outputs:
                        self._places.pop(each, None)
                    leaving.append(source)

    def _forward(self, node: Node, sources: Mapping[str, str]) -> None:
        for output in node.outputs:
            source = sources.get(output, "")
            if not output:
                continue
            if not self.is_output(output):
                self._sources[output] = source
                self._reads[source] += self._reads.pop(output, 0)
            elif source in self._places and not self.is_output(source):
                self._rename(source, output)
                self._reads[output] += self._reads.pop(source, 0)
            else:
                self._reads[source] += 1
                self._append(Node("identity", (source,), (output,), name=node.name))
        self._release(replace(node, inputs=tuple(self._sources.get(n, n) for n in node.inputs)))

    def _rename(self, old: str, new: str) -> None:
        """Give a value already written the name of a graph output."""
        names = {old: new}
        for place, node in enumerate(self._nodes):
            if node is not None and (old in node.inputs or old in node.outputs):
                self._nodes[place] = replace(
                    node,
                    inputs=tuple(names.get(name, name) for name in node.inputs),
                    outputs=tuple(names.get(name, name) for name in node.outputs),
                )
        self._places[new] = self._places.pop(old)
        for target, source in [*self._sources.items()]:
            self._sources[target] = names.get(source, source)
        self._sources[old] = new
        if "_types" in self.__dict__ and old in self._types:
            self._types[new] = self._types[old]
