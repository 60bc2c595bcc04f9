"""Weights on a grid: computed in float32, stored in few bits each.

A layer's weights become multiples of one step, so that an entropy coder stores them in a few bits;
a wider step needs fewer bits and makes a larger error. Weights are rounded one after the other, and
later weights compensate the errors that earlier ones make in the outputs on the samples (E. Frantar
et al.: GPTQ, 2023; B. Hassibi and D. Stork: Optimal Brain Surgeon, 1993). The width of each layer's
step follows from the effect of its error on the outputs of the whole model.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import NamedTuple

import numpy as np

from palmkit.engine.compress.agreement import Agreement
from palmkit.engine.compress.layers import Layer, find_layers, moments
from palmkit.engine.compress.pipeline import Progress, State
from palmkit.engine.errors import CompressionError
from palmkit.engine.ir import Array, Graph

MOST_LEVEL = 127
# Step as a share of the size of an output's weights; a weight then takes some 5 bits.
_PROBE = 0.12
# Wider steps make most weights zero, which may be harmless in one layer and harmful in all.
_WIDEST = 1.0
# Errors that hardly show in the outputs may show in results computed from them.
_MOST_STEP = 0.25
# Beyond that the error does not grow with the step.
_MOST_PROBED = 0.1
_DAMPING = 0.01
# The nearest power of sqrt(2) may be smaller by this factor.
_HALF_A_POWER = 2.0**0.25


class Feedback(NamedTuple):
    """How later columns of weights compensate the rounding of earlier ones.

    order: int64[k], of the columns, the most important first: nothing compensates the errors of the
    last. upper: float64[k, k], upper triangular.
    """

    order: Array
    upper: Array

    @staticmethod
    def of(hessian: Array) -> Feedback:
        """Return the feedback for second moments of inputs, float64[k, k], from their inverse.

        For a matrix of zeros, as of inputs never seen, there is none.
        """
        count = len(hessian)
        mean = float(np.trace(hessian)) / count
        if not mean > 0:
            return Feedback(np.arange(count), np.eye(count))
        order = np.argsort(-np.diag(hessian), kind="stable")
        damped = hessian[np.ix_(order, order)] + np.eye(count) * (_DAMPING * mean)
        inverse: Array = np.asarray(np.linalg.solve(damped, np.eye(count)), np.float64)
        return Feedback(order, np.linalg.cholesky(inverse).transpose())


def feedbacks(seen: Mapping[str, Array]) -> dict[str, list[Feedback]]:
    """Return each weight's feedback in its groups, for all that is tried with these inputs.

    seen: for each weight the second moments of its inputs, as `moments` returns them.
    """
    return {name: [Feedback.of(each) for each in hessians] for name, hessians in seen.items()}


@dataclass
class WeightRounding:
    """A step that stores each layer's weights in as few bits as the loss allows.

    tries: number of graphs that are measured while the width of the steps is searched.
    """

    name: str = "quantization"
    share: float = 3.0
    tries: int = 7
    most_samples: int = 32

    def apply(self, state: State) -> State:
        """Search the widest steps whose metric is not below the floor."""
        samples = state.samples[: self.most_samples]
        layers = find_layers(state.graph)
        if not layers:
            raise CompressionError("no layer has float32 weights to round")
        state.progress(0.0, "what each layer sees")
        feedback = feedbacks(moments(state.graph, layers, samples))
        widths = layer_steps(state.graph, layers, samples[:8], feedback, state.progress)
        low, high = -4.0, 5.0
        best: Graph | None = None
        for number in range(self.tries):
            middle = (low + high) / 2
            scale = 2.0**middle
            state.progress(0.3 + 0.7 * number / self.tries, f"steps of {scale:.3g} times")
            steps = {name: width * scale for name, width in widths.items()}
            tried = rounded(state.graph, layers, steps, feedback)
            if state.allows(tried):
                best, low = tried, middle
            else:
                high = middle
        if best is None:
            return state.noted("rounding any further than the finest steps loses too much")
        bits = {layer.weight: _entropy_bits(best.constants[layer.weight]) for layer in layers}
        return replace(state, graph=best).noted(
            *(f"{name}: {bits[name]:.2f} bits a weight" for name in bits)
        )


def layer_steps(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Sequence[Mapping[str, Array]],
    feedback: Mapping[str, Sequence[Feedback]],
    progress: Progress,
    matters: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return a step for each layer such that one bit more or less costs the same error anywhere.

    matters: the weights of errors in the outputs, as for Agreement.

    With an error of s * step^2 in the outputs and n * log2(1 / step) bits the sum of both is least
    where step^2 is in proportion to n / s. s is measured by rounding each layer alone.
    """
    agreement = Agreement(graph, samples, matters)
    steps: dict[str, float] = {}
    for number, layer in enumerate(layers):
        progress(0.3 * number / len(layers), f"how much {layer.node.outputs[0]} matters")
        probe, error = 4 * _PROBE, 1.0
        while error > _MOST_PROBED and probe > _PROBE / 100:
            probe /= 4
            alone = rounded(graph, [layer], {layer.weight: probe}, feedback)
            error = max(1e-6, 1 - agreement(alone))
        steps[layer.weight] = probe * float(np.sqrt(graph.constants[layer.weight].size)) / error
    unit = float(np.median(list(steps.values())))
    return {name: min(_PROBE * step / unit, _MOST_STEP) for name, step in steps.items()}


def rounded(
    graph: Graph,
    layers: Sequence[Layer],
    steps: Mapping[str, float],
    feedback: Mapping[str, Sequence[Feedback]],
) -> Graph:
    """Return the graph with the weights of these layers on grids of these steps.

    A layer that would need more than MOST_LEVEL steps each way stays as it is.
    feedback: as `feedbacks` returns it.
    """
    constants = dict(graph.constants)
    for layer in layers:
        weight = graph.constants[layer.weight]
        groups = layer.as_groups(weight)
        units = grid_of(groups, steps[layer.weight])
        if units is None:
            continue
        near = nearest_on(units, groups, feedback[layer.weight])
        constants[layer.weight] = layer.from_groups(near, weight.shape).astype(np.float32)
    return replace(graph, constants=constants)


def grids(graph: Graph, layers: Sequence[Layer], steps: Mapping[str, float]) -> dict[str, Array]:
    """Return the grid of each weight that `rounded` rounds: float32, its numbers' unit."""
    found: dict[str, Array] = {}
    for layer in layers:
        weight = graph.constants[layer.weight]
        groups = layer.as_groups(weight)
        units = grid_of(groups, steps[layer.weight])
        if units is not None:
            wide = np.broadcast_to(units, groups.shape)
            found[layer.weight] = layer.from_groups(wide, weight.shape).astype(np.float32)
    return found


def grid_of(groups: Array, step: float | Array) -> Array | None:
    """Return the unit of each output, float64[g, rows, 1]: `step` times its size.

    Units are powers of sqrt(2). groups: float64[g, rows, k]. step: one for all outputs, or
    float64[g, rows], which is made wider where a row needs that. A few distinct units, in float16,
    take hardly any room.
    Returns None if some weight would need more than MOST_LEVEL units.
    """
    sizes = np.sqrt(np.mean(groups**2, axis=2, keepdims=True))
    if isinstance(step, np.ndarray):
        least = np.abs(groups).max(axis=2, keepdims=True) / MOST_LEVEL
        wanted = np.maximum(sizes * step[:, :, None], least * _HALF_A_POWER)
    else:
        wanted = sizes * min(step, _WIDEST)
    wanted = np.where(wanted > 0, wanted, 1.0)
    units = np.exp2(np.ceil(2 * np.log2(wanted) - 0.5) / 2).astype(np.float16).astype(np.float64)
    too_narrow = (np.abs(groups) > (MOST_LEVEL + 0.5) * units).any()
    return None if too_narrow else units


def nearest_on(
    units: Array, groups: Array, feedback: Sequence[Feedback], outputs: Array | None = None
) -> Array:
    """Return the groups as multiples of units, rounded column by column; exact in float32.

    units: as `grid_of` returns them; feedback: of each of the g groups; outputs: float64[g, rows,
    rows], how errors of the rows count together, so that later rows compensate those of earlier
    ones.
    Returns float64[g, rows, k].
    """
    if outputs is None:
        levels = [_rounded_columns(*each) for each in zip(groups / units, feedback, strict=True)]
    else:
        both = zip(groups, units, feedback, outputs, strict=True)
        levels = [_rounded_both_ways(*each) for each in both]
    # Rounding also gives -0.0, which storage does not count as a zero.
    return (np.stack(levels) + 0.0) * units


def _rounded_both_ways(rows: Array, units: Array, columns: Feedback, outputs: Array) -> Array:
    """Return float64[n, k] in whole `units`, float64[n, 1]; columns and rows compensate errors."""
    order, upper = Feedback.of(outputs)
    left = rows.copy()
    levels = np.zeros_like(left)
    for number, row in enumerate(order):
        levels[row] = _rounded_columns(left[row : row + 1] / units[row], columns)[0]
        error = (left[row] - levels[row] * units[row]) / upper[number, number]
        left[order[number + 1 :]] -= np.outer(upper[number, number + 1 :], error)
    return levels


def _rounded_columns(rows: Array, feedback: Feedback) -> Array:
    """Return float64[n, k] rounded to integers; later columns compensate errors of earlier ones."""
    order, upper = feedback
    left = rows[:, order]
    levels = np.empty_like(left)
    for column in range(rows.shape[1]):
        whole = np.clip(np.rint(left[:, column]), -MOST_LEVEL, MOST_LEVEL)
        levels[:, order[column]] = whole
        error = (left[:, column] - whole) / upper[column, column]
        left[:, column + 1 :] -= np.outer(error, upper[column, column + 1 :])
    return levels


def costs_left(moments: Array) -> Array:
    """Return float64[k]: the cost of an error in each after later ones compensate what they can.

    moments: float64[k, k].
    """
    order, upper = Feedback.of(moments)
    costs = np.empty(len(moments))
    costs[order] = np.diag(upper) ** -2.0
    return costs


def _entropy_bits(values: Array) -> float:
    counts = np.unique(values, return_counts=True)[1]
    return float(sum(-n / values.size * log2(n / values.size) for n in counts))


def in_half(graph: Graph, without: Container[str]) -> Graph:
    """Return the graph with its float32 constants, but those named, rounded to float16.

    They stay float32 and take half the bytes in a file whose weights are "auto" or "smallest".
    """
    half = {
        name: value.astype(np.float16).astype(np.float32)
        for name, value in graph.constants.items()
        if value.dtype == np.float32 and name not in without
    }
    return graph.with_nodes(graph.nodes, {**graph.constants, **half})
