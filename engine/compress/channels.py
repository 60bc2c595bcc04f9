"""Which channels of a graph belong together: what has to be removed with a channel.

Every value may have one axis whose places are labelled. Labels that an addition puts side by side
are one; a concatenation has the labels of its parts one after the other; a reshape to rows repeats
each. So a label stands for all slices of weights, biases and slopes that only make sense together
(Fang et al., DepGraph: Towards Any Structural Pruning, 2023). Labels that an output has, or that an
op reads in a way not known here, are frozen: they have to stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from palmkit.engine.ir import Array, Graph, Known, Type
from palmkit.engine.ops import infer_types
from palmkit.engine.passes.rewrite import input_at
from palmkit.engine.shapes import symbolic_types

Role: TypeAlias = Literal["makes", "reads", "carries"]


@dataclass(frozen=True)
class Labelled:
    """A value's axis, and the labels of its places; Channels.root gives their representatives."""

    axis: int
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Slot:
    """A constant that a node reads, one axis of which is labelled.

    node: its number in the graph. place: the constant's place among the node's inputs. role:
    "makes" the channels (rows of weights, biases), "reads" them (columns of weights) or "carries"
    them from input to output (depthwise weights, slopes).
    """

    node: int
    place: int
    axis: int
    labels: tuple[int, ...]
    role: Role


class Channels:
    """The labels of a graph.

    values: the labelled values. slots: every labelled axis of a constant. frozen: labels that have
    to stay.
    """

    def __init__(self, graph: Graph) -> None:
        """Start without labels; channel_rules.channels_of adds them."""
        self.graph = graph
        self.values: dict[str, Labelled] = {}
        self.slots: list[Slot] = []
        self._parents: list[int] = []
        self.frozen: set[int] = set()
        self._types = infer_types(graph)
        if not graph.is_static:
            # Channels are known even where heights and widths are open.
            self._types = {**symbolic_types(graph), **self._types}

    def root(self, label: int) -> int:
        """Return the representative of all labels that are one with this."""
        while self._parents[label] != label:
            self._parents[label] = self._parents[self._parents[label]]
            label = self._parents[label]
        return label

    def roots(self, labels: Sequence[int]) -> Array:
        """Return the root of each label, int64."""
        return np.array([self.root(label) for label in labels], np.int64)

    @property
    def free(self) -> set[int]:
        """Return the roots that may be removed."""
        made = {self.root(n) for s in self.slots if s.role == "makes" for n in s.labels}
        return made - {self.root(label) for label in self.frozen}

    def freeze(self, *names: str) -> None:
        """Mark the channels of these values as staying."""
        for name in names:
            if name in self.values:
                self.frozen.update(map(self.root, self.values[name].labels))

    def new(self, count: int) -> tuple[int, ...]:
        """Return new labels."""
        first = len(self._parents)
        self._parents += range(first, first + count)
        return tuple(range(first, first + count))

    def join(self, a: Sequence[int], b: Sequence[int]) -> None:
        """Make each label of `a` one with the label of `b` in its place."""
        for left, right in zip(a, b, strict=True):
            first, second = sorted((self.root(left), self.root(right)))
            self._parents[second] = first
            if second in self.frozen:
                self.frozen.add(first)

    def type(self, name: str) -> Type | None:
        """Return the type of a value, as far as it is known."""
        return self._types.get(name)

    def rank(self, name: str) -> int | None:
        """Return the number of dims of a value."""
        type = self.type(name)
        return None if type is None or not type.has_rank else len(type.shape)

    def constant(self, name: str) -> Array | None:
        """Return a constant, or a value that depends on constants alone."""
        value = self.graph.constants.get(name)
        if value is None:
            type = self.type(name)
            value = type.value if isinstance(type, Known) else None
        return value

    def slot(self, number: int, place: int, axis: int, labels: tuple[int, ...], role: Role) -> None:
        """Record a labelled axis of a constant, unless the input is left out."""
        if input_at(self.graph.nodes[number], place):
            self.slots.append(Slot(number, place, axis, labels, role))

    def put(self, name: str, axis: int, labels: Sequence[int]) -> bool:
        """Label a value."""
        if name:
            self.values[name] = Labelled(axis, tuple(labels))
        return True
