"""The steps of compression, in order, and steps that do one thing quickly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from palmkit.engine.compress.cluster import clustered
from palmkit.engine.compress.pipeline import State, Step, Target
from palmkit.engine.compress.prune_neurons import NeuronPruning
from palmkit.engine.compress.prune_synapses import SynapsePruning
from palmkit.engine.compress.quantize import quantize
from palmkit.engine.compress.rounding import WeightRounding
from palmkit.engine.compress.transform import NetworkTransform
from palmkit.engine.format import writer
from palmkit.engine.ir import Array, Graph


def default_steps(target: Target, tuning: int = 40) -> list[Step]:
    """Return all five: network transform, neuron and synapse pruning, quantization, entropy coding.

    tuning: steps of fine-tuning to the float outputs after each cut; 0 for none.
    """
    quantization: Step = WeightRounding() if target == "size" else Integers()
    return [
        NetworkTransform(steps=tuning),
        NeuronPruning(steps=tuning),
        SynapsePruning(steps=tuning),
        quantization,
        EntropyCoding(),
    ]


@dataclass
class Float16:
    """A step that rounds weights to float16; biases and numbers out of range stay as they are."""

    name: str = "float16"
    share: float = 1.0

    def apply(self, state: State) -> State:
        """Round the weights."""
        return replace(state, graph=writer.stored(state.graph, "float16"))


@dataclass
class Integers:
    """A step that quantizes layers to int8, with activations by their ranges on the samples.

    required: whether the compression fails if this step is undone.
    """

    name: str = "quantization"
    share: float = 3.0
    methods: Sequence[str] = ("kl", "percentile", "min_max")
    required: bool = False

    def apply(self, state: State) -> State:
        """Apply the first method that the loss allows, or else the best of all."""
        best: tuple[float, Graph, str] | None = None
        for number, method in enumerate(self.methods):
            state.progress(number / len(self.methods), f"int8, ranges by {method}")
            tried = quantize(state.graph, state.samples, method=method)
            metric = state.evaluate(tried)
            if best is None or metric > best[0]:
                best = metric, tried, method
            if metric >= state.floor:
                break
        assert best is not None
        return replace(state, graph=best[1]).noted(f"ranges by {best[2]}")


@dataclass
class Clustering:
    """A step that reduces each layer's weights to a few distinct numbers.

    required: whether the compression fails if this step is undone.
    """

    bits: int = 4
    name: str = "codebooks"
    share: float = 3.0
    required: bool = False

    def apply(self, state: State) -> State:
        """Cluster every kernel and matrix."""
        constants = dict(state.graph.constants)
        chosen = [name for name, value in constants.items() if _is_weight(value)]
        for number, name in enumerate(chosen):
            state.progress(number / len(chosen), name)
            constants[name] = clustered(constants[name], 2**self.bits)
        return replace(state, graph=replace(state.graph, constants=constants))


@dataclass
class EntropyCoding:
    """A step that stores float32 as float16, and every constant in its smallest storage."""

    name: str = "entropy coding"
    share: float = 0.5

    def apply(self, state: State) -> State:
        """Round the remaining float32, if the loss allows it; -0.0 becomes 0.0."""
        constants = {name: _plain_zeros(v) for name, v in state.graph.constants.items()}
        halved = {name: _as_half(value) for name, value in constants.items()}
        graph = replace(state.graph, constants=halved)
        if state.allows(graph):
            return replace(state, graph=graph)
        return replace(state, graph=replace(state.graph, constants=constants)).noted(
            "the rest stays float32: float16 loses too much"
        )


def _is_weight(value: Array) -> bool:
    return value.dtype == np.float32 and value.ndim >= 2 and value.size >= 64


def _plain_zeros(value: Array) -> Array:
    if value.dtype != np.float32 or not np.signbit(value[value == 0]).any():
        return value
    plain: Array = value + np.float32(0)
    return plain


def _as_half(value: Array) -> Array:
    """Return small constants such as biases rounded to float16, if in range and not few values."""
    if value.dtype != np.float32 or value.ndim == 0:
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        half: Any = value.astype(np.float16).astype(np.float32)
    if not np.array_equal(np.isfinite(half), np.isfinite(value)):
        return value
    few = len(np.unique(value)) <= value.size // 4
    return value if few else half
