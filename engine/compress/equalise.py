"""Give the channels of a value similar ranges, by scales that the adjacent layers undo.

Nagel et al. 2019, Data-Free Quantization Through Weight Equalization and Bias Correction, section
4.1: relu(x / s) = relu(x) / s for s > 0, so a channel can be made smaller in the layer that writes
it and larger in those that read it. Here the scales depend on the measured values, too (Xiao et al.
2023, SmoothQuant): s = sqrt(range of the channel / weights that read it). Values that are added,
resized or pooled into one another share their channels' scales.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from palmkit.engine.compress.observe import Observation
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.ops import infer_types, traits_of
from palmkit.engine.ops.traits import Layer, Movement
from palmkit.engine.passes.weights import has_rows_of_outputs, kind_of, reads_columns

_MOST = 1024.0


@dataclass
class _Group:
    """Values that share their channels' scales, with the layers that write and read them."""

    values: set[str] = field(default_factory=set[str])
    writers: list[Node] = field(default_factory=list[Node])
    readers: list[Node] = field(default_factory=list[Node])


def equalise(graph: Graph, seen: Mapping[str, Observation]) -> Graph:
    """Return the same prepared graph up to rounding, with similar ranges of its channels.

    seen: observations of this graph's values; those that were not observed do not count.
    """
    constants = dict(graph.constants)
    for group in _groups(graph):
        scales = _scales(group, seen, constants)
        if scales is None:
            continue
        for node in group.writers:
            for name in node.inputs[1:3]:
                if name:
                    shape = (-1, *[1] * (constants[name].ndim - 1))
                    constants[name] = _frozen(constants[name] / scales.reshape(shape))
        for node in group.readers:
            name = node.inputs[1]
            along = [1] * constants[name].ndim
            along[_input_axis(node, constants)] = -1
            constants[name] = _frozen(constants[name] * scales.reshape(along))
    return graph.with_nodes(graph.nodes, constants)


def _frozen(value: Array) -> Array:
    value = value.astype(np.float32)
    value.flags.writeable = False
    return value


def _groups(graph: Graph) -> list[_Group]:
    """Return the groups in which every node can take part."""
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            name = parents[name]
        return name

    bad: set[str] = {*graph.inputs, *graph.outputs}
    uses: dict[str, int] = {}
    types = infer_types(graph)
    for node in graph.nodes:
        for name in node.inputs[1:3] if node.op == "gemm" or _is_convolution(node) else ():
            uses[name] = uses.get(name, 0) + 1
    writers: list[tuple[str, Node]] = []
    readers: list[tuple[str, Node]] = []
    for node in graph.nodes:
        y = node.outputs[0]
        if _is_convolution(node) and _can_scale(node, graph, uses):
            readers.append((node.inputs[0], node))
            writers.append((y, node))
            if len(node.inputs) > 3 and node.inputs[3]:
                parents[root(node.inputs[3])] = root(y)
        elif node.op == "gemm" and _is_plain_gemm(node, graph, uses):
            readers.append((node.inputs[0], node))
            bad.add(y)
        elif (traits_of(node.op).homogeneous and _ties(node, graph)) or _drops_ones(node, types):
            for name in node.inputs[: 2 if traits_of(node.op).broadcasts else 1]:
                parents[root(name)] = root(y)
        else:
            bad.update((*filter(None, node.inputs), *node.outputs))
    found: dict[str, _Group] = {}
    for name, node in writers:
        found.setdefault(root(name), _Group()).writers.append(node)
    for name, node in readers:
        found.setdefault(root(name), _Group()).readers.append(node)
    for name in list(parents):
        found.setdefault(root(name), _Group()).values.add(name)
    for name, _ in (*writers, *readers):
        found[root(name)].values.add(name)
    return [g for g in found.values() if g.writers and g.readers and not g.values & bad]


def _is_convolution(node: Node) -> bool:
    return kind_of(node) is Layer.CONVOLUTION


def _can_scale(node: Node, graph: Graph, uses: Mapping[str, int]) -> bool:
    """Return whether a layer has constant weights of its own and an activation that scales."""
    weights = graph.constants.get(node.inputs[1])
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    if weights is None or weights.ndim != 4 or (bias and bias not in graph.constants):
        return False
    if any(uses[name] > 1 for name in node.inputs[1:3] if name):
        return False
    if node.integer("group") != 1 and not _is_depthwise(node, graph.constants):
        return False
    if not node.has("activation"):
        return True
    clips = node.text("activation") == "clip"
    return clips and node.numbers("activation_params") == (0.0, float("inf"))


def _is_plain_gemm(node: Node, graph: Graph, uses: Mapping[str, int]) -> bool:
    own = node.inputs[1] in graph.constants and uses[node.inputs[1]] == 1
    return own and not reads_columns(node)


def _drops_ones(node: Node, types: Mapping[str, Type]) -> bool:
    """Return whether [n, c, 1, 1] becomes [n, c]."""
    if traits_of(node.op).movement is not Movement.RESHAPES:
        return False
    before, after = types.get(node.inputs[0]), types.get(node.outputs[0])
    return (
        before is not None
        and after is not None
        and len(before.shape) == 4
        and before.shape == (*after.shape, 1, 1)
    )


def _input_axis(node: Node, constants: Mapping[str, Array]) -> int:
    """Return the axis of a reader's weights that counts the channels it reads."""
    if node.op == "gemm":
        return 1 if has_rows_of_outputs(node) else 0
    return 0 if _is_depthwise(node, constants) else 1


def _is_depthwise(node: Node, constants: Mapping[str, Array]) -> bool:
    shape = constants[node.inputs[1]].shape
    return len(shape) == 4 and node.integer("group") == shape[0] and shape[1] == 1 and shape[0] > 1


def _ties(node: Node, graph: Graph) -> bool:
    if traits_of(node.op).broadcasts:
        return not any(name in graph.constants for name in node.inputs)
    return node.op != "resize" or not node.has("axes")


def _scales(
    group: _Group, seen: Mapping[str, Observation], constants: Mapping[str, Array]
) -> Array | None:
    """Return float64[c] by which the values shrink; None where it is not known."""
    counts = {constants[node.inputs[1]].shape[0] for node in group.writers}
    reaches = [seen[name].channel_reach for name in group.values if name in seen]
    if len(counts) != 1 or not reaches or any(each.size not in counts for each in reaches):
        return None
    reach = np.max(reaches, axis=0)
    weights = np.zeros_like(reach)
    for node in group.readers:
        value = np.abs(constants[node.inputs[1]].astype(np.float64))
        if _is_depthwise(node, constants):
            continue
        axis = _input_axis(node, constants)
        if value.shape[axis] != reach.size:
            return None
        columns = value.max(tuple(each for each in range(value.ndim) if each != axis))
        weights = np.maximum(weights, columns / max(columns.max(), 1e-12))
    if not weights.any():
        weights = 1 / np.maximum(reach, 1e-12)
    alive = (reach > 1e-6 * reach.max()) & (weights > 1e-6 * weights.max())
    if not alive.any():
        return None
    scales = np.ones_like(reach)
    scales[alive] = np.sqrt(reach[alive] / weights[alive])
    scales[alive] /= np.exp(np.log(scales[alive]).mean())
    return np.asarray(np.clip(scales, 1 / _MOST, _MOST))
