"""Layers rounded in turn, each making good what the rounding of those before it does.

What a layer is to give is what it gives in the graph as it was; what it is given comes from layers
that are rounded already. Its weights are fitted to that by least squares before they are rounded
(Y. Li et al.: GPTAQ, asymmetric calibration, 2025), and its bias keeps the mean of its sums (Nagel
et al. 2019, Data-Free Quantization Through Weight Equalization and Bias Correction). It takes two
runs of the samples a layer, and loses less than `rounded` in the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.compress.layers import Layer, input_rows
from palmkit.engine.compress.pipeline import Progress
from palmkit.engine.compress.rounding import grid_of, nearest_on
from palmkit.engine.ir import UNKNOWN, Array, Graph, consumers
from palmkit.engine.model import Model

# Of the mean square of what a layer sees.
_DAMPING = 0.01
# Rows for each weight of an output; with fewer it is not fitted: it would learn the samples.
_ENOUGH = 20


def rounded_in_turn(
    graph: Graph,
    layers: Sequence[Layer],
    steps: Mapping[str, float],
    samples: Sequence[Mapping[str, Array]],
    progress: Progress,
) -> Graph:
    """As `rounding.rounded`, from the first layer to the last."""
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
        near = nearest_on(units, seen.fitted(groups), seen.square)
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


@dataclass(frozen=True)
class _Seen:
    """What a layer's weights multiply: x in the graph as it was, y in the graph that is.

    square: float64[groups, k, k], the mean of y y^T; cross: of x y^T; less the means' products
    where the bias takes these. mean_before, mean: float64[groups, k], of x and y. rows: how many.
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
        """Measure it on samples."""
        weight = was.constants[layer.weight]
        groups, _, size = layer.as_groups(weight).shape
        square, cross = np.zeros((2, groups, size, size))
        mean_before, mean = np.zeros((2, groups, size))
        rows = 0
        pairs = zip(_inputs(was, layer, samples), _inputs(now, layer, samples), strict=True)
        for number, values in enumerate(pairs):
            # The same places of both.
            x, y = (input_rows(layer, weight, v, np.random.default_rng(number)) for v in values)
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

    def fitted(self, groups: Array) -> Array:
        """float64[groups, rows, k]: weights that give of y most nearly what these give of x."""
        size = groups.shape[2]
        if self.rows < _ENOUGH * size:
            return groups
        found: list[Array] = []
        for rows, square, cross in zip(groups, self.square, self.cross, strict=True):
            damping = _DAMPING * np.trace(square) / size + 1e-12
            wanted = rows @ (cross + damping * np.eye(size))
            damped = square + damping * np.eye(size)
            solved: Array = np.asarray(np.linalg.solve(damped, wanted.T), np.float64)
            found.append(solved.T)
        return np.stack(found)


def _inputs(graph: Graph, layer: Layer, samples: Sequence[Mapping[str, Array]]) -> Iterator[Array]:
    name = layer.node.inputs[0]
    if name in graph.inputs:
        yield from (sample[name] for sample in samples)
        return
    model = Model(replace(graph, outputs={name: UNKNOWN}))
    for sample in samples:
        yield model.run(sample)[name]
