"""Training of some weights of a model on the device, with the kernels that run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.errors import ModelError, ShapeError
from palmkit.engine.ir import Array, Graph, Type, fresh_name, value_names
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import steps
from palmkit.engine.passes.fold_constants import fold_constants
from palmkit.engine.passes.inline_branches import inline_branches
from palmkit.engine.passes.remove_dead_code import remove_dead_code
from palmkit.engine.passes.remove_identities import remove_identities
from palmkit.engine.passes.resolve_padding import resolve_padding
from palmkit.engine.passes.write_out_attention import write_out_attention
from palmkit.engine.passes.write_out_einsum import write_out_einsum
from palmkit.engine.shapes import with_input_shapes
from palmkit.engine.train.gradients import with_gradients
from palmkit.engine.train.losses import LOSSES, Loss
from palmkit.engine.train.optimisers import Adam, Optimiser
from palmkit.engine.train.tape import Tape
from palmkit.engine.train.write_out import write_out

# What makes a graph of known sizes plain enough for gradients, and no more: the fusions come after.
_BEFORE = (
    remove_dead_code,
    fold_constants,
    inline_branches,
    write_out_attention,
    write_out_einsum,
    remove_identities,
    resolve_padding,
)


def trainable(graph: Graph) -> dict[str, int]:
    """Return the constants that can be trained, in running order, with their sizes in elements.

    They are those of floating point with more than one element that a layer reads as its weights,
    bias, slope or scale.
    """
    places = {
        "add": (0, 1), "batch_normalization": (1, 2), "conv": (1, 2), "conv_transpose": (1, 2),
        "gather": (0,), "gemm": (0, 1, 2), "layer_normalization": (1, 2), "matmul": (0, 1),
        "mul": (0, 1), "prelu": (1,), "quantize_linear": (0,), "rms_normalization": (1,),
    }  # fmt: skip
    found: dict[str, int] = {}
    for node in graph.nodes:
        for place in places.get(node.op, ()):
            name = node.inputs[place] if place < len(node.inputs) else ""
            value = graph.constants.get(name)
            if value is not None and value.size > 1 and value.dtype.name in ("float32", "float64"):
                found[name] = value.size
    return found


class Trainer:
    """Trains some constants of a graph; everything else of it stays as it is.

    One step runs the model, its loss and the gradients as one graph on the engine's kernels, then
    the optimiser. Sizes may change from step to step: each set of sizes is planned once, and the
    last few plans are kept. A trainer may be used by one thread at a time.
    """

    def __init__(
        self,
        graph: Graph,
        output: str,
        loss: str | Loss,
        parameters: Sequence[str],
        optimiser: Optimiser | None = None,
        *,
        backend: str = "cpu",
        threads: int = 1,
    ) -> None:
        """Start with the graph's own weights.

        output: a value of the graph that the loss reads, an output or a value before it (such as
        the logits before a sigmoid). loss: a name of losses.LOSSES, or a function like those.
        parameters: names among `trainable(graph)`. optimiser: Adam of rate 1e-3 if left out.
        Raises ModelError for a name that the graph does not have, ValueError for an unknown loss.
        """
        if isinstance(loss, str) and loss not in LOSSES:
            raise ValueError(f"loss: expected one of {', '.join(LOSSES)}, got {loss!r}")
        known = trainable(graph)
        for name in parameters:
            if name not in known:
                raise ModelError(
                    f"parameter {name!r}: not among those that can be trained: {', '.join(known)}"
                )
        if not parameters:
            raise ModelError("parameters: expected the name of at least one")
        if output not in {name for node in graph.nodes for name in node.outputs}:
            raise ModelError(f"output {output!r}: no node of the graph writes it")
        self._source = graph
        self._output = output
        self._loss = LOSSES[loss] if isinstance(loss, str) else loss
        self.parameters = {name: graph.constants[name].copy() for name in parameters}
        self.optimiser = Adam(1e-3) if optimiser is None else optimiser
        self._backend, self._threads = backend, threads
        taken = value_names(graph)
        self._target, self._weight = (fresh_name(taken, name) for name in ("target", "weight"))
        self._programs: dict[tuple[tuple[int, ...], ...], tuple[Model, str, dict[str, str]]] = {}

    @property
    def graph(self) -> Graph:
        """The graph with the current weights."""
        constants = dict(self._source.constants)
        for name, value in self.parameters.items():
            constants[name] = value.copy()
            constants[name].flags.writeable = False
        return replace(self._source, constants=constants)

    @property
    def arena_bytes(self) -> int:
        """Bytes of intermediate values in steps of the sizes seen last."""
        return sum(model.arena_bytes for model, _, _ in self._programs.values())

    def step(
        self, inputs: Mapping[str, Array], target: Array, weight: Array | None = None
    ) -> float:
        """Train one step on a batch, and return the loss before it.

        inputs: as the model takes them. target: of the output's shape; see losses.
        weight: how much each element counts, of the same shape; all alike if left out.
        Raises ShapeError if an array does not fit, UnsupportedError for an op without a gradient.
        """
        loss, gradients = self.gradients(inputs, target, weight)
        self.optimiser.step(self.parameters, gradients)
        return loss

    def gradients(
        self, inputs: Mapping[str, Array], target: Array, weight: Array | None = None
    ) -> tuple[float, dict[str, Array]]:
        """Return the loss of a batch and its gradients by parameter; arguments as for step."""
        target = np.asarray(target)
        weight = np.ones_like(target) if weight is None else np.asarray(weight, target.dtype)
        model, loss, names = self._program(inputs, target)
        extra = {self._target: target, self._weight: weight}
        found = model.run({**inputs, **self.parameters, **extra})
        return float(found[loss]), {name: found[names[name]] for name in self.parameters}

    def _program(
        self, inputs: Mapping[str, Array], target: Array
    ) -> tuple[Model, str, dict[str, str]]:
        for name, type in self._source.inputs.items():
            if name not in inputs:
                raise ShapeError(f"input {name}: expected {type}, got nothing")
        shapes = {name: np.shape(inputs[name]) for name in self._source.inputs}
        key = (*shapes.values(), target.shape)
        if key not in self._programs:
            self._programs[key] = self._compile(shapes, target)
            # The oldest plan is dropped, since lists of users vary in length.
            while len(self._programs) > 8:
                self._programs.pop(next(iter(self._programs)))
        return self._programs[key]

    def _compile(
        self, shapes: Mapping[str, tuple[int, ...]], target: Array
    ) -> tuple[Model, str, dict[str, str]]:
        graph = with_input_shapes(self._source, shapes)
        moved = {name: Type.of(value) for name, value in self.parameters.items()}
        constants = {n: v for n, v in graph.constants.items() if n not in moved}
        predicted = infer_types(graph)[self._output]
        if predicted.shape != target.shape or predicted.dtype != target.dtype.name:
            raise ShapeError(f"target: expected {predicted}, got {Type.of(target)}")
        graph = replace(
            graph,
            inputs={**graph.inputs, **moved},
            constants=constants,
            outputs={self._output: Type(predicted.dtype, predicted.dims)},
        )
        for _, changed in steps(graph, _BEFORE):
            graph = changed
        graph = write_out(graph, moved)
        types = {
            name: Type(predicted.dtype, predicted.dims) for name in (self._target, self._weight)
        }
        tape = Tape(replace(graph, inputs={**graph.inputs, **types}, outputs={}))
        loss = self._loss(tape, self._output, self._target, self._weight)
        graph, names = with_gradients(tape.graph([]), loss, [*moved])
        model = Model(graph, self._backend, self._threads)
        return model, loss, names
