"""The steps of compression, in order, and steps that do one thing quickly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from palmkit.engine.compress.cluster import clustered
from palmkit.engine.compress.mixed_precision import quantize_within
from palmkit.engine.compress.pipeline import State, Step, Target
from palmkit.engine.compress.prune_neurons import NeuronPruning
from palmkit.engine.compress.prune_synapses import SynapsePruning
from palmkit.engine.compress.rounding import WeightRounding
from palmkit.engine.compress.speed import is_faster, measured
from palmkit.engine.compress.transform import NetworkTransform
from palmkit.engine.format import writer
from palmkit.engine.ir import Array


def default_steps(target: Target, tuning: int | None = None) -> list[Step]:
    """Return all five: network transform, neuron and synapse pruning, quantization, entropy coding.

    For speed, synapses are pruned after quantization: kernels of int8 gain nothing by zeros.
    tuning: steps of fine-tuning to the float outputs after each cut; 0 for none; left out, 40 for
    size and none for speed, where it takes most of the time and gains next to nothing.
    """
    if tuning is None:
        tuning = 40 if target == "size" else 0
    pruning = SynapsePruning(steps=tuning)
    last: list[Step] = (
        [pruning, WeightRounding()]
        if target == "size"
        else [
            Integers(share=6.0),
            replace(pruning, share=0.5),
        ]
    )
    return [NetworkTransform(steps=tuning), NeuronPruning(steps=tuning), *last, EntropyCoding()]


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
    """A step that computes layers in int8, as many as gain time and the loss allows.

    Ranges of activations are chosen on the samples, by the method that loses least.
    required: whether the compression fails if this step is undone. Then all layers are quantized
    that the loss allows, whether or not they gain time here.
    """

    name: str = "quantization"
    share: float = 3.0
    methods: Sequence[str] = ("min_max", "percentile", "moving_average", "kl")
    required: bool = False

    def apply(self, state: State) -> State:
        """Choose the layers, and keep those in float that lose the most for the time they gain."""
        mixed = quantize_within(
            state.graph,
            state.samples,
            state.baseline - state.floor,
            lambda graph: state.baseline - state.evaluate(graph),
            methods=self.methods,
            costs=None if self.required else measured,
            progress=state.progress,
        )
        after = replace(state, graph=mixed.graph, layers=mixed.layers)
        count = sum(layer.integer for layer in mixed.layers)
        after = after.noted(f"{count} of {len(mixed.layers)} layers in int8, {mixed.method} ranges")
        if self.required or is_faster(mixed.graph, state.graph, state.samples[0]):
            return after
        return replace(after, graph=state.graph).noted("no faster in int8 on this machine")


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
