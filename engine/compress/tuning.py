"""Fine-tuning a compressed graph: the float model's outputs are the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type, fresh_name, value_names
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.shapes import with_input_shapes
from palmkit.engine.train import Adam, Trainer, trainable

_FLOATS = ("float32", "float64")


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
        shapes = {name: np.shape(value) for name, value in samples[0].items()}
        self._graph = with_input_shapes(graph, shapes)
        self._outputs = [
            name for name, type in self._graph.outputs.items() if type.dtype in _FLOATS
        ]
        self._teacher = Model(with_input_shapes(teacher, shapes))
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
            said = self._teacher.run(self.samples[number])
            rows = [said[name].reshape(-1) * self._gains[name] for name in self._outputs]
            self._targets[number] = np.concatenate(rows)[None]
        return self._targets[number]

    def tune(
        self,
        steps: int,
        after: Callable[[int, Mapping[str, Array], Mapping[str, Array]], None] | None = None,
    ) -> float:
        """Train for some steps with a rate falling to zero; return the mean loss of the last.

        after: called with the step's number, the weights, to be changed in place, and their
        gradients.
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
        self.optimiser.rate = rate
        return float(np.mean(losses[-10:])) if losses else 0.0

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
