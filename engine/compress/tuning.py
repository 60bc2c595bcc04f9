"""Fine-tuning a compressed graph: the float model's outputs are the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, prod

import numpy as np

from palmkit.engine.compress.pipeline import State
from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type, fresh_name, value_names
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.shapes import with_input_shapes
from palmkit.engine.train import Adam, Trainer, trainable

_FLOATS = ("float32", "float64")
# Fine-tuning has so many tries, each at a tenth of the rate of the one before.
_TRIES = 3
# A try ends early where the loss of some steps is so many times what it was at first: Adam recovers
# from less.
_GROWN = 100.0
_LOOKED_AT = 8
# Steps over which a mean loss is taken.
_AT_ONCE = 10
# So many steps may bring back a loss of twice what is allowed, twice as many one of three times.
_STEPS_TO_HALVE = 20


def within(graph: Graph, state: State, steps: int, rate: float) -> tuple[Graph | None, str]:
    """Return the graph if its metric is not below the floor, at once or fine-tuned; else None.

    The graph is fine-tuned to the source's outputs only where that is needed and not hopeless.
    The second value is a note why fine-tuning was not possible, or empty.
    """
    metric = state.evaluate(graph)
    if metric >= state.floor:
        return graph, ""
    if not state.samples or is_hopeless(metric, state, steps):
        return None, ""
    try:
        tuner = Tuner(graph, state.source, state.samples, rate, state.seed)
        tuner.settle(steps)
    except UnsupportedError as error:
        return None, f"no fine-tuning: {error}"
    return (tuner.graph if state.allows(tuner.graph) else None), ""


def is_hopeless(metric: float, state: State, steps: int) -> bool:
    """Return whether this many steps of fine-tuning cannot be expected to reach the floor."""
    allowed = state.baseline - state.floor
    return not steps or state.baseline - metric > (1 + steps / _STEPS_TO_HALVE) * allowed


class Tuner:
    """Trains a graph until its outputs match another one's.

    All outputs of floating point count, each weighted by the inverse of its spread over the
    samples.
    """

    def __init__(
        self,
        graph: Graph,
        teacher: Graph,
        samples: Sequence[Mapping[str, Array]],
        rate: float = 3e-4,
        seed: int = 0,
    ) -> None:
        """Prepare the training.

        samples: inputs of runs, each of the same shapes.
        Raises ShapeError if there are none, or if the teacher has other outputs; UnsupportedError
        if the graph has nothing to train.
        """
        if not samples:
            raise ShapeError("samples: expected at least one, got none")
        if [*graph.outputs] != [*teacher.outputs]:
            raise ShapeError(
                f"teacher: expected outputs {', '.join(graph.outputs)}, got "
                f"{', '.join(teacher.outputs)}"
            )
        self.samples = samples
        self.draw = np.random.default_rng(seed)
        self._shapes = {name: np.shape(value) for name, value in samples[0].items()}
        self._graph = with_input_shapes(graph, self._shapes)
        self._outputs = [
            name for name, type in self._graph.outputs.items() if type.dtype in _FLOATS
        ]
        self._teacher = Model(with_input_shapes(teacher, self._shapes))
        self._source = graph
        self._targets: dict[int, Array] = {}
        self._gains = self._measured()
        parameters = [*trainable(graph)]
        if not parameters or not self._outputs:
            raise UnsupportedError("fine-tuning: the model has no weights that can be trained")
        joined, name = self._joined()
        self.optimiser = Adam(rate, clip=1.0)
        self.trainer = Trainer(joined, name, "mean_squared_error", parameters, self.optimiser)

    @property
    def parameters(self) -> dict[str, Array]:
        """The weights by name, to be changed in place."""
        return self.trainer.parameters

    @property
    def graph(self) -> Graph:
        """The graph with the current weights."""
        trained = self.trainer.graph.constants
        constants = {name: trained.get(name, v) for name, v in self._source.constants.items()}
        return replace(self._source, constants=constants)

    def gradients(self, number: int, target: Array | None = None) -> dict[str, Array]:
        """Return the gradients on a sample.

        target: a target other than the teacher's, in the form of `target`.
        """
        wanted = self.target(number) if target is None else target
        return self.trainer.gradients(self.samples[number], wanted)[1]

    def target(self, number: int) -> Array:
        """Return the teacher's outputs for a sample: float32[1, all outputs side by side]."""
        if number not in self._targets:
            self._targets[number] = self._joined_row(self._teacher.run(self.samples[number]))
        return self._targets[number]

    def _joined_row(self, said: Mapping[str, Array]) -> Array:
        rows = [said[name].reshape(-1) * self._gains[name] for name in self._outputs]
        joined: Array = np.concatenate(rows)[None]
        return joined

    def tune(
        self,
        steps: int,
        after: Callable[[int, Mapping[str, Array], Mapping[str, Array]], None] | None = None,
        most: float = inf,
    ) -> float:
        """Train for some steps with a rate falling to zero; return the mean loss of the last.

        after: called with the step's number, the weights, to be changed in place, and their
        gradients. most: the training ends where the mean loss of ten steps is larger.
        """
        rate, losses = self.optimiser.rate, list[float]()
        for step in range(steps):
            self.optimiser.rate = rate * max(0.5 + 0.5 * float(np.cos(np.pi * step / steps)), 0.01)
            number = int(self.draw.integers(len(self.samples)))
            loss, gradients = self.trainer.gradients(self.samples[number], self.target(number))
            self.optimiser.step(self.parameters, gradients)
            if after is not None:
                after(step, self.parameters, gradients)
            losses.append(loss)
            if step % _AT_ONCE == _AT_ONCE - 1 and np.mean(losses[-_AT_ONCE:]) > most:
                break
        self.optimiser.rate = rate
        return float(np.mean(losses[-_AT_ONCE:])) if losses else 0.0

    def settle(self, steps: int) -> None:
        """Train for some steps at a rate at which the loss does not grow.

        Where it grows the weights are taken back and the rate is divided by ten; where it grows at
        every rate the weights stay as they are.
        """
        before = {name: value.copy() for name, value in self.parameters.items()}
        rate, first = self.optimiser.rate, self._loss()
        for number in range(_TRIES):
            self.optimiser = Adam(rate / 10**number, clip=1.0)
            self.tune(steps, most=_GROWN * first)
            if self._loss() < first:
                return
            for name, value in self.parameters.items():
                value[...] = before[name]

    def _loss(self) -> float:
        """Return the mean square of the outputs' differences on some of the samples."""
        model = Model(with_input_shapes(self.graph, self._shapes))
        found: list[float] = []
        for number in range(min(_LOOKED_AT, len(self.samples))):
            said = model.run(self.samples[number])
            difference = self._joined_row(said) - self.target(number)
            found.append(float(np.mean(np.square(difference, dtype=np.float64))))
        return float(np.mean(found))

    def _measured(self) -> dict[str, np.float32]:
        """Return the factor of each output that makes all of them vary alike."""
        seen = [self._teacher.run(sample) for sample in self.samples[:16]]
        spread = {name: np.concatenate([s[name].ravel() for s in seen]) for name in self._outputs}
        return {
            name: np.float32(1 / max(float(values.std(dtype=np.float64)), 0.01 * _largest(values)))
            for name, values in spread.items()
        }

    def _joined(self) -> tuple[Graph, str]:
        """Return the graph with one more value, all outputs side by side."""
        taken = value_names(self._graph)
        types = infer_types(self._graph)
        nodes, constants = list(self._graph.nodes), dict(self._graph.constants)
        parts: list[str] = []
        total = 0
        for name in self._outputs:
            shape, gain, row, part = (
                fresh_name(taken, f"{name}/{what}") for what in ("shape", "gain", "row", "part")
            )
            size = prod(types[name].dims)
            constants[shape] = np.array([1, size], np.int64)
            constants[gain] = np.array([self._gains[name]], types[name].dtype)
            nodes.append(Node("reshape", (name, shape), (row,)))
            nodes.append(Node("mul", (row, gain), (part,)))
            parts.append(part)
            total += size
        whole = fresh_name(taken, "outputs")
        nodes.append(Node("concat", tuple(parts), (whole,), {"axis": 1}))
        outputs = {whole: Type("float32", (1, total))}
        return replace(self._graph.with_nodes(tuple(nodes), constants), outputs=outputs), whole


def _largest(values: Array) -> float:
    return max(float(np.abs(values).max(initial=0.0)), 1e-6)
