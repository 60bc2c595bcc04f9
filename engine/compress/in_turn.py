"""Layers rounded in turn, each compensating the rounding of those before it.

A layer's target is its output in the original graph; its input comes from layers that are rounded
already. Its weights are fitted to that by least squares before they are rounded (Y. Li et al.:
GPTAQ, asymmetric calibration, 2025), and its bias keeps the mean of its sums (Nagel et al. 2019,
Data-Free Quantization Through Weight Equalization and Bias Correction). It takes two runs of the
samples a layer, and loses less than `rounded` in the same bytes. Layers of many inputs need many
samples: a fit to few holds on these alone. Where it is known how errors of a layer's outputs count
together (`curvature`), outputs compensate one another, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.compress.agreement import Agreement
from palmkit.engine.compress.curvature import output_steps
from palmkit.engine.compress.layers import AT_ONCE, Layer, input_rows
from palmkit.engine.compress.pipeline import Progress
from palmkit.engine.compress.rounding import Feedback, grid_of, nearest_on
from palmkit.engine.ir import UNKNOWN, Array, Graph, consumers
from palmkit.engine.model import Model

# Regularisation as a share of the mean square of a layer's inputs: a constant part, and parts that
# grow with the weights for each row of inputs: the fewer rows, the less their correlations count.
_DAMPING, _DOUBT_IN_FIT, _DOUBT_IN_ROUNDING = 0.01, 0.5, 0.1
# Steps in units of an output's weights: where errors are measured, the resulting step of the middle
# layer, and the largest; beyond it errors do not grow with the step.
_PROBE, _MIDDLE, _MOST_STEP, _MOST_PROBED = 0.25, 0.05, 1.0, 0.1
# Samples are read until there are this many rows for each weight of an output, and in total.
_ENOUGH, _LEAST_SAMPLES = 30, 500


def rounded_in_turn(
    graph: Graph,
    layers: Sequence[Layer],
    steps: Mapping[str, float] | Mapping[str, Array],
    samples: Sequence[Mapping[str, Array]],
    progress: Progress,
    together: Mapping[str, Array] | None = None,
) -> Graph:
    """Do what `rounding.rounded` does, from the first layer to the last.

    steps: as `rounding.grid_of` takes them, by the names of weights. together: for some weights how
    errors of their outputs count together, as `curvature.output_moments` returns it.
    """
    readers = consumers(graph)
    now = graph
    for number, layer in enumerate(layers):
        progress(number / len(layers), f"rounding {layer.weight}")
        weight = graph.constants[layer.weight]
        groups = layer.as_groups(weight)
        units = grid_of(groups, steps[layer.weight])
        if units is None:
            continue
        bias = layer.node.inputs[2] if len(layer.node.inputs) > 2 else ""
        keeps_mean = (
            bias in graph.constants
            and len(readers[bias]) == 1
            and graph.constants[bias].size == groups.shape[0] * groups.shape[1]
        )
        seen = _Seen.of(graph, now, layer, samples, keeps_mean)
        feedback = [Feedback.of(each) for each in seen.doubted]
        near = nearest_on(units, seen.fitted(groups), feedback, (together or {}).get(layer.weight))
        constants = {
            **now.constants,
            layer.weight: layer.from_groups(near, weight.shape).astype(np.float32),
        }
        if keeps_mean:
            before, after = (
                np.einsum("gok,gk->go", rows, mean)
                for rows, mean in ((groups, seen.mean_before), (near, seen.mean))
            )
            shift = (before - after).reshape(graph.constants[bias].shape)
            constants[bias] = (graph.constants[bias] + shift).astype(np.float32)
        now = replace(now, constants=constants)
    return now


def steps_in_turn(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Sequence[Mapping[str, Array]],
    probes: Sequence[Mapping[str, Array]],
    progress: Progress,
    together: Mapping[str, Array],
    matters: Mapping[str, float] | None = None,
) -> dict[str, Array]:
    """Return steps as `rounding.layer_steps` does, for this method, and for each output.

    They are float64[groups, rows] by the names of the weights.
    probes: samples on which errors are measured. They must differ from `samples`, on which a fitted
    layer shows too small errors.
    """
    agreement = Agreement(graph, probes, matters)
    steps: dict[str, Array] = {}
    units: list[float] = []
    for number, layer in enumerate(layers):
        progress(number / len(layers), f"how much {layer.node.outputs[0]} matters")
        weight = graph.constants[layer.weight]
        wide = output_steps(layer, weight, together.get(layer.weight))
        probe, error = 4 * _PROBE, 1.0
        while error > _MOST_PROBED and probe > _PROBE / 100:
            probe /= 4
            tried = {layer.weight: probe * wide}
            alone = rounded_in_turn(graph, [layer], tried, samples, _unseen, together)
            error = max(1e-6, 1 - agreement(alone))
        units.append(probe * float(np.sqrt(weight.size)) / error)
        steps[layer.weight] = wide * units[-1]
    middle = float(np.median(units)) / _MIDDLE
    return {name: np.minimum(step / middle, _MOST_STEP) for name, step in steps.items()}


def _unseen(share: float, what: str) -> None:
    """Report no progress."""


@dataclass(frozen=True)
class _Seen:
    """The inputs of a layer's weights: x in the original graph, y in the current one.

    square: float64[groups, k, k], the mean of y y^T; cross: the mean of x y^T; both minus the
    products of the means where the bias takes these. mean_before, mean: float64[groups, k], of x
    and y. rows: how many vectors were seen.
    """

    square: Array
    cross: Array
    mean_before: Array
    mean: Array
    rows: int

    @classmethod
    def of(
        cls,
        was: Graph,
        now: Graph,
        layer: Layer,
        samples: Sequence[Mapping[str, Array]],
        centred: bool,
    ) -> _Seen:
        """Measure the inputs on samples."""
        weight = was.constants[layer.weight]
        groups, _, size = layer.as_groups(weight).shape
        square, cross = np.zeros((2, groups, size, size))
        mean_before, mean = np.zeros((2, groups, size))
        rows = 0
        pairs = zip(_inputs(was, layer, samples), _inputs(now, layer, samples), strict=True)
        for x, y in _gathered(_rows(layer, weight, pairs)):
            square += np.matmul(y.transpose(0, 2, 1), y)
            cross += np.matmul(x.transpose(0, 2, 1), y)
            mean_before += x.sum(axis=1)
            mean += y.sum(axis=1)
            rows += x.shape[1]
        for total in (square, cross, mean_before, mean):
            total /= rows
        if centred:
            square -= mean[:, :, None] * mean[:, None]
            cross -= mean_before[:, :, None] * mean[:, None]
        return cls(square, cross, mean_before, mean, rows)

    @property
    def doubted(self) -> Array:
        """Return the square, float64[groups, k, k], regularised for the number of rows."""
        doubts = [self._damping(each, 0.0, _DOUBT_IN_ROUNDING) for each in self.square]
        found: Array = self.square + np.stack(doubts)
        return found

    def fitted(self, groups: Array) -> Array:
        """Return weights float64[groups, rows, k] whose products with y fit these' with x."""
        found: list[Array] = []
        for rows, square, cross in zip(groups, self.square, self.cross, strict=True):
            damping = self._damping(square, _DAMPING, _DOUBT_IN_FIT)
            wanted = rows @ (cross + damping)
            solved: Array = np.asarray(np.linalg.solve(square + damping, wanted.T), np.float64)
            found.append(solved.T)
        return np.stack(found)

    def _damping(self, square: Array, always: float, doubt: float) -> Array:
        size = len(square)
        share = always + doubt * size / self.rows
        damped: Array = np.eye(size) * (share * np.trace(square) / size + 1e-12)
        return damped


def _rows(
    layer: Layer, weight: Array, pairs: Iterable[tuple[Array, Array]]
) -> Iterator[tuple[Array, Array]]:
    """Yield the same places of each pair of values, float64[groups, n, k], as far as needed."""
    rows = 0
    for number, values in enumerate(pairs):
        x, y = (input_rows(layer, weight, v, np.random.default_rng(number)) for v in values)
        yield x, y
        rows += x.shape[1]
        if number + 1 >= _LEAST_SAMPLES and rows >= _ENOUGH * x.shape[2]:
            return


def _gathered(pairs: Iterable[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Yield the same rows, more of them at once."""
    xs: list[Array] = []
    ys: list[Array] = []
    for x, y in pairs:
        xs.append(x)
        ys.append(y)
        if sum(each.shape[1] for each in xs) >= AT_ONCE:
            yield np.concatenate(xs, axis=1), np.concatenate(ys, axis=1)
            xs, ys = [], []
    if xs:
        yield np.concatenate(xs, axis=1), np.concatenate(ys, axis=1)


def _inputs(graph: Graph, layer: Layer, samples: Sequence[Mapping[str, Array]]) -> Iterator[Array]:
    name = layer.node.inputs[0]
    if name in graph.inputs:
        yield from (sample[name] for sample in samples)
        return
    model = Model(replace(graph, outputs={name: UNKNOWN}))
    for sample in samples:
        yield model.run(sample)[name]
