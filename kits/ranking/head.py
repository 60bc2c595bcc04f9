"""The last layers of a re-ranker, with a layer of one user's taste: the trained part."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import Model, train
from palmkit.engine.cached import cached
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.forks import renewed_in_children
from palmkit.engine.ir import Graph, Node, Type, fresh_name, value_names
from palmkit.kits.kit import Runnable
from palmkit.kits.ranking.table import Floats

# Constants by name, float32.
Weights: TypeAlias = "dict[str, NDArray[Any]]"
# A step looks at so many pages, filled up or cut to so many items.
PAGES, ITEMS = 4, 50
# Of the model's own constants the last so many are trained, with the taste.
LAYERS = 2
RATE, CLIP = 0.005, 16.0
# The taste is multiplied by this: it goes so much faster, squared, than the model's own weights.
PACE = 16.0
# What draws the weights back to those shipped: a variance of 1/4 is expected of the taste and of
# what becomes of each other weight (L2-SP; Li et al., Explicit Inductive Bias for Transfer
# Learning, 2018).
PULL = 4.0


class Part(NamedTuple):
    """Inputs of the last layers for pages: float32[b, n, ...].

    hidden: the model's features of each item. own: the item's own features, see Own.wide.
    """

    hidden: Floats
    own: Floats

    def filled(self, room: int) -> Part:
        """Return it padded with zeros to `room` items."""
        return Part(*(_filled(each, room) for each in self))


class Head:
    """The layers from a model's features of items ("hidden") to scores; shared by sessions.

    To the model's own scores is added `own @ taste`: this user's taste of the item's categories and
    measures, at first zero. Of a model of trees "hidden" is the score, and the taste all that is
    trained.
    """

    def __init__(self, model: Runnable, width: int) -> None:
        """Take the layers from a model and prepare them, some 50 ms.

        width: columns of own.
        Raises UnsupportedError if the model has no output "hidden" or its layers cannot be trained.
        """
        graph = cast("Graph | None", getattr(model, "graph", None))
        if graph is None or not {"hidden", "scores"} <= set(graph.outputs):
            raise UnsupportedError(
                "learning: the model has no output hidden: train it with `palmkit rerank train`"
            )
        self._whole = graph
        self.graph, self._scores, self.taste = _cut(graph, width)
        own = [name for name in train.trainable(self.graph) if name != self.taste]
        names = [*own[len(own) - LAYERS :], self.taste]
        self.shipped: Weights = {name: self.graph.constants[name].copy() for name in names}
        self.width = width
        self.channels = int(self.graph.inputs["hidden"].shape[-1])
        opened = {name: Type.of(self.graph.constants[name]) for name in names}
        constants = {n: v for n, v in self.graph.constants.items() if n not in opened}
        # Weights are inputs, so that one plan serves all users.
        open_graph = replace(
            self.graph, inputs={**self.graph.inputs, **opened}, constants=constants
        )
        self._scorer = Model(open_graph, "cpu", 1)
        self._trainer = train.Trainer(self.graph, self._scores, "listwise", names, _optimiser())
        renewed_in_children(self, Head._renew)
        # Both are planned here and not within somebody's time.
        nothing = np.zeros((PAGES, ITEMS), np.float32)
        self._trainer.gradients(self._arrays(self.room(PAGES)), nothing, nothing)
        self.score(self.shipped, self.room(1))

    def _renew(self) -> None:
        """Make new locks in a forked child."""
        self._lock = threading.Lock()

    @cached
    def digest(self) -> str:
        """The digest of the shipped layers, so that what was learned never meets other ones.

        Where none of the model's own is trained, it is that of the whole model.
        """
        own = {name: value for name, value in self.shipped.items() if name != self.taste}
        parts = self.shipped if own else {**self._whole.constants, **self.shipped}
        found = hashlib.sha256(f"{self.channels} {self.width}".encode())
        for name, value in sorted(parts.items()):
            found.update(name.encode())
            found.update(np.ascontiguousarray(value).tobytes())
        return found.hexdigest()

    def room(self, pages: int) -> Part:
        """Return zeros for `pages` pages of ITEMS items."""
        around = (pages, ITEMS)
        return Part(
            np.zeros((*around, self.channels), np.float32),
            np.zeros((*around, self.width), np.float32),
        )

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of the weights (now, before, new, momentum), and of a step."""
        weights = sum(each.nbytes for each in self.shipped.values())
        batch = sum(each.nbytes for each in self.room(PAGES))
        return 4 * weights + batch + self._trainer.arena_bytes

    def score(self, weights: Weights, part: Part) -> Floats:
        """Return scores, float32[b, n]."""
        return cast(Floats, self._scorer.run({**weights, **self._arrays(part)})[self._scores])

    def liked(self, weights: Weights, own: Floats) -> Floats:
        """Return the part of the scores that is taste, float32[n], for float32[n, width]."""
        return cast(Floats, (own @ weights[self.taste])[:, 0] * np.float32(PACE))

    @contextmanager
    def training(
        self, weights: Weights, pages: int
    ) -> Generator[Callable[[Part, Floats, Floats], None]]:
        """Yield a step on a batch with relevance and weight, which changes these weights in place.

        pages: how many there are in all: the more, the less the shipped weights count. One user at
        a time.
        """
        with self._lock:
            trainer, pull = self._trainer, PULL / pages * RATE
            # The taste is its stored value times PACE.
            pulls = {
                name: np.float32(pull * (PACE * PACE if name == self.taste else 1))
                for name in weights
            }
            trainer.parameters = weights
            trainer.optimiser = _optimiser()

            def step(part: Part, relevance: Floats, weight: Floats) -> None:
                trainer.step(self._arrays(part), relevance, weight)
                for name, value in weights.items():
                    value += pulls[name] * (self.shipped[name] - value)

            yield step

    def _arrays(self, part: Part) -> dict[str, NDArray[Any]]:
        return {"hidden": part.hidden, "own": part.own}


def _optimiser() -> train.Optimiser:
    return train.SGD(RATE, clip=CLIP)


def _cut(graph: Graph, width: int) -> tuple[Graph, str, str]:
    """Return the graph from hidden to scores, with the taste; and the names of scores and taste."""
    behind = {"hidden"}
    nodes: list[Node] = []
    for node in graph.nodes:
        if not behind.isdisjoint(node.inputs):
            nodes.append(node)
            behind.update(node.outputs)
    used = {name for node in nodes for name in node.inputs if name}
    if used - behind - set(graph.constants):
        raise UnsupportedError("learning: the scores hang on more than the output hidden")
    taken = value_names(graph)
    taste, pace, last, row, part, liked, total = (
        fresh_name(taken, name)
        for name in ("taste", "pace", "last", "row", "part", "liked", "total")
    )
    constants = {name: graph.constants[name] for name in used & set(graph.constants)}
    constants[taste] = np.zeros((width, 1), np.float32)
    constants[pace] = np.array(PACE, np.float32)
    constants[last] = np.array([2])
    nodes += [
        Node("matmul", ("own", taste), (row,)),
        Node("squeeze", (row, last), (part,)),
        Node("mul", (part, pace), (liked,)),
        Node("add", ("scores", liked), (total,)),
    ]
    hidden = graph.outputs["hidden"]
    around = hidden.shape[:2]
    inputs = {"hidden": hidden, "own": Type("float32", (*around, width))}
    return Graph(inputs, {total: Type("float32", around)}, tuple(nodes), constants), total, taste


def _filled(array: NDArray[Any], room: int) -> NDArray[Any]:
    """Return [b, room, ...] with zeros at the end."""
    if array.shape[1] == room:
        return np.ascontiguousarray(array)
    found = np.zeros((array.shape[0], room, array.shape[2]), array.dtype)
    found[:, : array.shape[1]] = array
    return found
