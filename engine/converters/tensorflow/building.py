"""The graph under construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np

from palmkit.engine.converters.tensorflow.nodes import (
    Library,
)
from palmkit.engine.converters.tensorflow.values import Fact, infer
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import (
    ANY_RANK,
    MOST_NESTED,
    Array,
    Attr,
    Graph,
    Node,
    Type,
    check,
    fresh_name,
)
from palmkit.engine.ops import run_reference

_MOST_KEPT = 64
# Ops by which layers derive values from their weights.
_COMPUTED = (
    *("add", "cast", "concat", "div", "mul", "neg", "reciprocal", "reshape", "slice", "sqrt"),
    *("squeeze", "sub", "transpose", "unsqueeze"),
)


_Derived: TypeAlias = dict[tuple[int, str], tuple[Array, Array]]


@dataclass
class Building:
    """A graph, or the body of a control-flow op, under construction.

    pending: tensor lists of unknown rank among a body's inputs, with the rank once it is known.
    derived: arrays computed from others, so that each is made once, however many nodes need it.
    """

    library: Library
    depth: int = 0
    nodes: list[Node] = field(default_factory=list[Node])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    inputs: dict[str, Type] = field(default_factory=dict[str, Type])
    taken: set[str] = field(default_factory=set[str])
    pending: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    derived: _Derived = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]

    def child(self) -> Building:
        """Return an empty body of a node of this graph."""
        if self.depth >= MOST_NESTED:
            raise ModelError(f"control flow is nested over {MOST_NESTED} deep")
        return Building(self.library, self.depth + 1, derived=self.derived)

    def add_input(self, name: str, type: Type) -> str:
        """Add an input and return its name."""
        name = fresh_name(self.taken, name)
        self.inputs[name] = type
        if type.has_rank and type.dtype != "undefined":
            self.facts[name] = Fact.typed(type)
        return name

    def assume_rank(self, value: str, dtype: str, rank: int) -> None:
        """Record the rank that an operator requires of a value whose type is unknown."""
        if value not in self.facts:
            self.facts[value] = Fact.typed(Type(dtype, ("?",) * rank))
            if value in self.inputs:
                dims = tuple(f"{value}.{axis}" for axis in range(rank))
                self.inputs[value] = Type(dtype, dims)

    def constant(self, value: Array, stem: str) -> str:
        """Add a constant and return its name."""
        name = fresh_name(self.taken, stem)
        value.flags.writeable = False
        self.constants[name] = value
        self.facts[name] = Fact.of(value)
        return name

    def emit(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, Attr],
        label: str,
        outputs: int = 1,
    ) -> tuple[str, ...]:
        """Add a node, or constants instead where its results are known."""
        names = tuple(fresh_name(self.taken, f"{label}/{op}") for _ in range(outputs))
        node = Node(op, tuple(inputs), names, attrs, label)
        facts: tuple[Fact, ...] = ()
        if all(not name or name in self.facts for name in inputs):
            facts = infer(node, [self.facts[name] if name else None for name in inputs])
        facts = tuple(map(_without_large_value, facts))
        values = [fact.value for fact in facts]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            for name, value in zip(names, known, strict=False):
                value = np.array(value)
                value.flags.writeable = False
                self.constants[name] = value
        else:
            computed = self._computed(node, facts)
            self.constants.update(computed)
            self.facts.update({name: Fact.of(value) for name, value in computed.items()})
            if computed:
                return names
            self.nodes.append(node)
        self.facts.update(zip(names, facts, strict=False))
        return names

    def _computed(self, node: Node, facts: Sequence[Fact]) -> dict[str, Array]:
        """Return the node's results if its inputs are constant and they take little memory."""
        inputs = [self.constants.get(name) for name in node.inputs]
        given = [value.nbytes for value in inputs if value is not None]
        if node.op not in _COMPUTED or not facts or len(given) != len(inputs):
            return {}
        size = sum(fact.types[0].size_bytes for fact in facts)
        if size > min(2 * sum(given), self.library.room_bytes):
            return {}
        self.library.room_bytes -= size
        found = dict(zip(node.outputs, run_reference(node, inputs), strict=True))
        for value in found.values():
            value.flags.writeable = False
        return found

    def graph(self, outputs: Mapping[str, str]) -> Graph:
        """Return the graph whose outputs, by name, are these values."""
        for name, value in outputs.items():
            if name != value or name in self.inputs:
                self.nodes.append(Node("identity", (value,), (name,), {}, name))
        types = {name: self.type(value, name) for name, value in outputs.items()}
        read = {name for node in self.nodes for name in node.inputs} | {*outputs}
        constants = {name: value for name, value in self.constants.items() if name in read}
        graph = Graph(self.inputs, types, _needed(self.nodes, outputs), constants)
        read = {name for node in graph.nodes for name in node.inputs} | {*outputs}
        constants = {name: value for name, value in constants.items() if name in read}
        graph = replace(graph, constants=constants)
        check(graph)
        return graph

    def type(self, value: str, name: str = "") -> Type:
        """Return what is known of the type of a value."""
        fact = self.facts.get(value)
        if fact is None:
            return self.inputs.get(value, Type("undefined", ANY_RANK))
        return fact.as_type(name or value)


def _needed(nodes: Sequence[Node], outputs: Mapping[str, str]) -> tuple[Node, ...]:
    """Return the nodes that the outputs depend on."""
    wanted, kept = {*outputs}, list[Node]()
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            kept.append(node)
            wanted.update(node.inputs)
    return tuple(reversed(kept))


def _without_large_value(fact: Fact) -> Fact:
    """Drop values larger than shape computations need, so that a node takes little memory."""
    if prod(fact.types[0].dims) <= _MOST_KEPT:
        return fact
    first, second = (Type(type.dtype, type.shape) for type in fact.types)
    return Fact((first, second))
