"""Synapse pruning: single weights, or blocks of them, become zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.prune_neurons import remove_unread
from palmkit.engine.compress.tuning import Tuner, is_hopeless
from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.weights import has_rows_of_outputs, is_plain_layer
from palmkit.engine.train import trainable

SynapseMethod: TypeAlias = Literal["magnitude", "snip", "movement"]
Block: TypeAlias = tuple[int, int]
# Weights of fewer elements stay: they would save less than they are worth.
_SMALL = 128
# How often a density is fine-tuned before it is given up.
_ROUNDS = 3


def prunable(graph: Graph) -> dict[str, int]:
    """Return the weights that can be pruned, with the axis of their output channels."""
    found: dict[str, int] = {}
    known = trainable(graph)
    for node in graph.nodes:
        if not is_plain_layer(traits_of(node.op)) or node.inputs[1] not in known:
            continue
        weight = graph.constants[node.inputs[1]]
        is_first = has_rows_of_outputs(node)
        if weight.ndim >= 2 and weight.size >= _SMALL and weight[0].size > 9:
            found[node.inputs[1]] = 0 if is_first else 1
    return found


def kept_share(begin: float, end: float, progress: float) -> float:
    """Return the share of weights that remains at a progress of 0..1.

    The cubic schedule of Zhu and Gupta (To prune, or not to prune, 2017): fast while many weights
    are superfluous, slow towards the end.
    """
    left = 1 - min(max(progress, 0.0), 1.0)
    return end + (begin - end) * left**3


def layer_adaptive(squares: Array) -> Array:
    """Turn squares of weights into scores that are comparable between layers.

    Lee et al., Layer-adaptive Sparsity for the Magnitude-based Pruning, 2021: each square over the
    sum of the layer's squares that are not smaller.
    """
    flat = squares.ravel().astype(np.float64)
    order = np.argsort(flat, kind="stable")
    rest = np.cumsum(flat[order][::-1])[::-1]
    scores = np.zeros_like(flat)
    scores[order] = flat[order] / np.maximum(rest, 1e-300)
    return scores.reshape(squares.shape)


def in_blocks(values: Array, axis: int, block: Block) -> Array:
    """Return sums over blocks of [outputs, inputs * taps]: float64[rows, columns] of blocks."""
    matrix = np.moveaxis(values, axis, 0)
    matrix = matrix.reshape(len(matrix), -1).astype(np.float64)
    rows, columns = (-size % each for size, each in zip(matrix.shape, block, strict=True))
    matrix = np.pad(matrix, ((0, rows), (0, columns)))
    height, width = matrix.shape
    parts = matrix.reshape(height // block[0], block[0], width // block[1], block[1])
    return np.asarray(parts.sum((1, 3)))


def of_blocks(keep: Array, shape: Sequence[int], axis: int, block: Block) -> Array:
    """Return which elements of weights are in the blocks to keep: bool of their shape."""
    moved = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    whole = np.repeat(np.repeat(keep, block[0], 0), block[1], 1)
    whole = whole[: moved[0], : int(np.prod(moved[1:]))]
    return np.moveaxis(whole.reshape(moved), 0, axis)


def choose_weights(
    scores: Mapping[str, Array], axes: Mapping[str, int], share: float, block: Block = (1, 1)
) -> dict[str, Array]:
    """Return the weights that stay, bool of each one's shape: those of the highest scores.

    scores: at least 0, of each weight's shape, compared over all layers. share: share of all
    elements, 0..1.
    """
    sums = {name: in_blocks(value, axes[name], block) for name, value in scores.items()}
    joined = np.concatenate([value.ravel() for value in sums.values()])
    gone = joined.size - round(share * joined.size)
    edge = np.partition(joined, gone - 1)[gone - 1] if gone > 0 else -1.0
    return {
        name: of_blocks(value > edge, scores[name].shape, axes[name], block)
        for name, value in sums.items()
    }


class SynapsePruner:
    """Prunes a graph step by step, and fine-tunes it where there are samples.

    masks: which weights remain, bool by name.
    """

    def __init__(
        self,
        graph: Graph,
        method: SynapseMethod = "magnitude",
        block: Block = (1, 1),
        tuner: Tuner | None = None,
    ) -> None:
        """Start with all weights.

        method: the worth of a weight: "magnitude", its square, compared between layers by
        `layer_adaptive`; "snip", how much the outputs would move without it, to first order (Lee et
        al., SNIP: Single-shot Network Pruning, 2019); "movement", how far fine-tuning has moved it
        away from zero (Sanh et al., Movement Pruning, 2020). The last two need a tuner.
        Raises UnsupportedError for a method that needs a tuner, ShapeError for a block below 1x1.
        """
        if method != "magnitude" and tuner is None:
            raise UnsupportedError(f"pruning by {method} needs samples to fine-tune with")
        if min(block) < 1:
            raise ShapeError(f"block: expected 1 or more rows and columns, got {block}")
        self.graph, self.method, self.block, self.tuner = graph, method, block, tuner
        self.axes = prunable(graph)
        self.weights: Mapping[str, Array] = graph.constants if tuner is None else tuner.parameters
        self.masks = {name: self.weights[name] != 0 for name in self.axes}
        self.moved = {name: np.zeros(self.weights[name].shape) for name in self.axes}
        self.size = sum(mask.size for mask in self.masks.values())

    @property
    def density(self) -> float:
        """The share of the prunable weights that remains."""
        there = sum(int(np.count_nonzero(mask)) for mask in self.masks.values())
        return float(there / max(self.size, 1))

    def scores(self) -> dict[str, Array]:
        """Return the current worth of each weight; 0 for a pruned one."""
        if self.method == "magnitude":
            return {
                name: layer_adaptive(np.square(self.weights[name]) * mask)
                for name, mask in self.masks.items()
            }
        if self.method == "movement":
            return {
                name: (self.moved[name] - self.moved[name].min() + 1e-12) * mask
                for name, mask in self.masks.items()
            }
        return self._missed()

    def _missed(self) -> dict[str, Array]:
        """Return |weight * gradient| of the outputs' distance from their mean over the samples."""
        assert self.tuner is not None
        count = min(len(self.tuner.samples), 16)
        targets = [self.tuner.target(number) for number in range(count)]
        mean = np.mean(targets, 0, dtype=np.float64) if count > 1 else np.zeros(targets[0].shape)
        found = {name: np.zeros(mask.shape) for name, mask in self.masks.items()}
        for number in range(count):
            gradients = self.tuner.gradients(number, mean.astype(targets[number].dtype))
            for name, missed in found.items():
                missed += np.abs(self.weights[name] * gradients[name])
        return {name: missed * self.masks[name] for name, missed in found.items()}

    def prune(self, share: float) -> None:
        """Prune all weights but the best ones, `share` of the prunable."""
        keep = choose_weights(self.scores(), self.axes, share, self.block)
        self.masks = {name: keep[name] & mask for name, mask in self.masks.items()}
        if self.tuner is not None:
            self._apply()

    def _apply(self) -> None:
        for name, mask in self.masks.items():
            self.weights[name][~mask] = 0

    def gradually(self, share: float, steps: int, every: int = 10) -> None:
        """Prune down to `share` over two thirds of the fine-tuning steps."""
        if self.tuner is None or not steps:
            self.prune(share)
            return
        begin = self.density
        if self.method == "snip":
            self.prune(share)

        def after(
            step: int, parameters: Mapping[str, Array], gradients: Mapping[str, Array]
        ) -> None:
            if self.method == "movement":
                for name, moved in self.moved.items():
                    moved -= parameters[name] * gradients[name]
            if step % every == 0 and self.method != "snip":
                self.prune(kept_share(begin, share, 1.5 * step / steps))
            self._apply()

        self.tuner.tune(steps, after)
        self.prune(share)

    def pruned(self) -> Graph:
        """Return the graph with pruned weights as zeros."""
        graph = self.graph if self.tuner is None else self.tuner.graph
        constants = dict(graph.constants)
        for name, mask in self.masks.items():
            value = np.where(mask, constants[name], np.zeros((), constants[name].dtype))
            value.flags.writeable = False
            constants[name] = value
        return replace(graph, constants=constants)


@dataclass
class SynapsePruning:
    """Graphs of decreasing density, as long as the metric allows.

    densities: shares of the prunable weights, one after the other, until one is not allowed. block:
    rows and columns of weights that stay or go together. steps: number of fine-tuning steps for
    each that is not allowed without, up to three times; rate: learning rate of Adam.
    """

    name: str = "synapse pruning"
    share: float = 1.0
    method: SynapseMethod = "magnitude"
    densities: tuple[float, ...] = (0.8, 0.6, 0.4, 0.28, 0.2, 0.14, 0.1, 0.07, 0.05)
    block: Block = (1, 1)
    steps: int = 120
    rate: float = 3e-4

    def apply(self, state: State) -> State:
        """Return the least dense graph whose metric is not below the floor."""
        best, density, notes = state.graph, 1.0, list[str]()
        left, metric = [*self.densities], state.metric
        pruner = SynapsePruner(state.graph, block=self.block)
        while left and self.method == "magnitude":
            if left[0] < pruner.density:
                self._tell(state, left[0])
                pruner.prune(left[0])
                metric = state.evaluate(pruner.pruned())
                if metric < state.floor:
                    break
                best, density = pruner.pruned(), pruner.density
            left.pop(0)
        if self.method != "magnitude" or (
            left and not is_hopeless(metric, state, _ROUNDS * self.steps)
        ):
            pruner = self._pruner(replace(state, graph=best), notes)
            for wanted in left:
                self._tell(state, wanted)
                if wanted >= pruner.density:
                    continue
                graph = self._tuned(pruner, wanted, state)
                if graph is None:
                    break
                best, density = graph, pruner.density
        if best is state.graph:
            return state.noted(*notes)
        notes.insert(0, f"{1 - density:.1%} of the weights of {len(pruner.axes)} layers are zero")
        return replace(state, graph=remove_unread(best)).noted(*notes)

    def _tell(self, state: State, wanted: float) -> None:
        done = self.densities.index(wanted) / len(self.densities)
        state.progress(done, f"{1 - wanted:.0%} of the weights zero")

    def _tuned(self, pruner: SynapsePruner, wanted: float, state: State) -> Graph | None:
        """Return the graph of this density if the metric allows it after some rounds."""
        rounds = 1 if pruner.tuner is None else _ROUNDS
        for left in reversed(range(rounds)):
            pruner.gradually(wanted, self.steps)
            metric = state.evaluate(pruner.pruned())
            if metric >= state.floor:
                return pruner.pruned()
            if is_hopeless(metric, state, left * self.steps):
                return None
        return None

    def _pruner(self, state: State, notes: list[str]) -> SynapsePruner:
        tuner: Tuner | None = None
        if self.steps and state.samples:
            try:
                tuner = Tuner(state.graph, state.source, state.samples, self.rate, state.seed)
                tuner.tune(1)
            except UnsupportedError as error:
                notes.append(f"no fine-tuning: {error}")
                tuner = None
        return SynapsePruner(state.graph, self.method, self.block, tuner)
