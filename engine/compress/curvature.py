"""How errors in layers' outputs show in the outputs of a model.

To second order the mean square change of the outputs is a quadratic form in the errors of a layer's
outputs; its matrix is the mean of the products of gradients along random directions of the model's
outputs (J. Martens and R. Grosse 2015, Optimizing Neural Networks with Kronecker-factored
Approximate Curvature; A. Tseng et al. 2025, Model-Preserving Adaptive Rounding).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palmkit.engine.compress.layers import Layer
from palmkit.engine.compress.pipeline import Progress
from palmkit.engine.compress.rounding import costs_left
from palmkit.engine.ir import Array, Graph, Node, fresh_name, value_names
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.ops.traits import Layer as Kind
from palmkit.engine.passes.weights import kind_of

# Added to the diagonal, as a share of it: few gradients say little about two rows together.
_DOUBT = 0.05
# How far the steps of a layer's outputs follow the cost of their errors, 0..1. 1 is best for each
# alone; but they share one coder's table, which prefers equal steps.
_IN_MATRICES, _IN_CONVOLUTIONS = 0.75, 0.25


def output_moments(
    graph: Graph,
    layers: Sequence[Layer],
    samples: Sequence[Mapping[str, Array]],
    progress: Progress,
    matters: Mapping[str, float] | None = None,
) -> dict[str, Array]:
    """Return for each layer's weight float64[groups, rows, rows]: the form of the rows' errors.

    matters: the weights of errors in the model's outputs, as for Agreement.
    Raises UnsupportedError for an op that has no gradient.
    """
    from palmkit.engine.train import SGD, Trainer

    tapped, taps = _tapped(graph, layers)
    model = Model(graph)
    expected = [model.run(sample) for sample in samples]
    found: dict[str, Array] = {}
    draw = np.random.default_rng(0)
    for number, output in enumerate(graph.outputs):
        values = [each[output] for each in expected]
        spread = float(np.std([value.astype(np.float64) for value in values]))
        weight = (matters or {}).get(output, 1.0)
        if not spread * weight:
            continue
        # The gradient of a mean square is proportional to the difference.
        trainer = Trainer(tapped, output, "mean_squared_error", [*taps.values()], SGD(1.0))
        for place, (sample, value) in enumerate(zip(samples, values, strict=True)):
            progress((number + place / len(samples)) / len(graph.outputs), f"what moves {output}")
            direction = draw.normal(size=value.shape) * np.sqrt(value.size) / 2
            _, gradients = trainer.gradients(sample, value + direction.astype(np.float32))
            for layer in layers:
                gradient = gradients[taps[layer.weight]].astype(np.float64) * (weight / spread)
                rows = gradient.reshape(gradient.shape[0], gradient.shape[1], -1)
                split = rows[0].reshape(layer.groups, -1, rows.shape[2])
                product = np.matmul(split, split.transpose(0, 2, 1)) / len(samples)
                found[layer.weight] = found.get(layer.weight, 0.0) + product
    return {name: _doubted(each) for name, each in found.items()}


def _doubted(moments: Array) -> Array:
    """Return the moments, float64[groups, rows, rows], with larger diagonals."""
    own = np.einsum("grr->gr", moments)
    surer: Array = moments + _DOUBT * np.einsum("gr,rs->grs", own, np.eye(moments.shape[1]))
    return surer


def _tapped(graph: Graph, layers: Sequence[Layer]) -> tuple[Graph, dict[str, str]]:
    """Return the graph with zeros added to each layer's output, and their names by the weights'."""
    types = infer_types(graph)
    taken = value_names(graph)
    behind = {layer.node.outputs[0]: layer.weight for layer in layers}
    taps: dict[str, str] = {}
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        name = node.outputs[0]
        if name not in behind:
            nodes.append(node)
            continue
        before, tap = fresh_name(taken, f"{name}/before"), fresh_name(taken, f"{name}/tap")
        taps[behind[name]] = tap
        dims: Any = types[name].dims
        constants[tap] = np.zeros(dims, np.float32)
        nodes.append(replace(node, outputs=(before,)))
        nodes.append(Node("add", (before, tap), (name,)))
    return graph.with_nodes(tuple(nodes), constants), taps


def output_steps(layer: Layer, weight: Array, together: Array | None) -> Array:
    """Return the relative step widths of a layer's outputs, float64[groups, rows].

    They are in units of their rows' sizes, with a geometric mean of 1.
    together: as `output_moments` returns it; without it errors of all outputs cost the same.
    """
    groups = layer.as_groups(weight)
    sizes = np.sqrt(np.mean(groups**2, axis=2))
    costs = np.ones_like(sizes)
    if together is not None:
        costs = np.stack([np.sqrt(costs_left(each)) for each in together])
    follows = _IN_MATRICES if kind_of(layer.node) is Kind.MATRIX else _IN_CONVOLUTIONS
    wide = np.where(sizes * costs > 0, sizes * costs, 1.0) ** -follows
    steps: Array = wide / np.exp(np.log(wide).mean())
    return steps
