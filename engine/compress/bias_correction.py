"""Take the mean error that rounded weights make out of the biases.

Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias Correction, section
4.2: rounding W to W' shifts the mean of a layer's sums by (W' - W) E[x]. E[x] is measured here, on
the calibration samples, one mean a channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from palmkit.engine.compress.observe import Observation
from palmkit.engine.compress.placement import Placement, is_layer
from palmkit.engine.compress.weights import (
    BITS,
    as_rows,
    levels_of,
    most_level,
    output_axis,
    weight_scales,
)
from palmkit.engine.ir import Graph, Node, fresh_name, value_names
from palmkit.engine.passes.weights import groups_of


def correct_biases(
    graph: Graph,
    placement: Placement,
    seen: Mapping[str, Observation],
    weights: str = "max",
    weight_bits: int = BITS,
) -> Graph:
    """Return a prepared graph whose integer layers keep the means of their sums.

    Layers without a bias stay as they are.
    seen: observations of the placement's values, in this graph.
    """
    taken = value_names(graph)
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        corrects = is_layer(node.op) and node.outputs[0] in placement.nodes
        read, weights_name, bias_name = (*node.inputs, "", "", "")[:3]
        has_bias = corrects and bool(bias_name)
        means = seen[read].channel_means if has_bias else np.zeros(0)
        if not means.size:
            nodes.append(node)
            continue
        rows = as_rows(graph.constants[weights_name], output_axis(node))
        most = most_level(rows.shape[1], weight_bits)
        scales = weight_scales(rows, None, 1.0, weights, most)
        error = levels_of(rows, scales, most) * scales.astype(np.float64)[:, None] - rows
        # Each group of outputs reads its own channels.
        groups = groups_of(node)
        inputs = means.reshape(groups, -1).repeat(len(rows) // groups, 0)
        shift = (error.reshape(*inputs.shape, -1).sum(2) * inputs).sum(1)
        bias = graph.constants[bias_name]
        name = fresh_name(taken, f"{bias_name}.corrected")
        constants[name] = (bias - shift.reshape(bias.shape)).astype(np.float32)
        constants[name].flags.writeable = False
        nodes.append(replace(node, inputs=(read, weights_name, name, *node.inputs[3:])))
    used = {name for node in nodes for name in node.inputs} | {*graph.outputs}
    kept = {name: value for name, value in constants.items() if name in used}
    return graph.with_nodes(tuple(nodes), kept)
