"""Training a quantized graph further (quantization-aware training), for small cases.

    quantized = quantize(graph, samples)
    plain = with_trainable_weights(quantized)
    trainer = Trainer(plain, "logits", "cross_entropy", [*trainable(plain)])
    ...
    quantized = with_levels(trainer.graph, quantized)

Weights are rounded to their levels in every step and learn straight through it; scales and zero
points stay. `palmkit.models.training.fake_quant` does the same in PyTorch, with ranges that learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Array, Graph, Node, fresh_name, value_names


def with_trainable_weights(graph: Graph) -> Graph:
    """Return a quantized graph with float32 weights that are rounded to levels in the graph.

    graph: as `quantize` returns it. The result computes the same, with layers as the trainer wants
    them. Biases, whose levels are fine, become float32 without rounding.
    """
    taken = value_names(graph)
    constants = dict(graph.constants)
    nodes: list[Node] = []
    stored = {node.outputs[0] for node, _ in _stored(graph)}
    for node in graph.nodes:
        name = node.outputs[0]
        if name not in stored:
            nodes += _apart(node, constants, taken)
            continue
        levels = graph.constants[node.inputs[0]]
        value = _float(node, graph)
        if levels.dtype == np.int32:
            constants[name] = value
            continue
        weights, inner = f"{name}{_WEIGHTS}", fresh_name(taken, f"{name}.levels")
        constants[weights] = value
        zero = (*node.inputs[2:], fresh_name(taken, f"{name}.zero"))[0]
        scale = graph.constants[node.inputs[1]]
        constants.setdefault(zero, _fixed(np.zeros(scale.shape, levels.dtype)))
        into = (weights, node.inputs[1], zero)
        nodes.append(Node("quantize_linear", into, (inner,), node.attrs))
        nodes.append(replace(node, inputs=(inner, node.inputs[1], zero)))
    return _with_what_is_read(graph, nodes, constants)


def with_levels(trained: Graph, quantized: Graph) -> Graph:
    """Return the quantized graph with the weights and biases of its trained one."""
    taken = value_names(quantized)
    constants = dict(quantized.constants)
    stored: dict[str, str] = {}
    for node, levels in _stored(quantized):
        name = node.outputs[0]
        value = trained.constants[name if levels.dtype == np.int32 else f"{name}{_WEIGHTS}"]
        scale, zero = _steps(node, quantized)
        bounds = np.iinfo(levels.dtype)
        # In float32, as quantize_linear does.
        whole = np.rint(value / scale).astype(np.float64) + zero
        stored[name] = fresh_name(taken, f"{name}.trained")
        kept = np.clip(whole, bounds.min, bounds.max).astype(levels.dtype)
        constants[stored[name]] = _fixed(kept)
    nodes = [
        replace(node, inputs=(stored[node.outputs[0]], *node.inputs[1:]))
        if node.outputs[0] in stored
        else node
        for node in quantized.nodes
    ]
    return _with_what_is_read(quantized, nodes, constants)


_WEIGHTS = ".weights"


def _apart(node: Node, constants: dict[str, Array], taken: set[str]) -> Iterator[Node]:
    """Yield a fused convolution as nodes that have gradients; anything else as it is.

    `quantize` leaves no activations but clamps in them.
    """
    if node.op != "fused_conv":
        yield node
        return
    inputs = (*node.inputs, "", "")[:4]
    fused = ("activation", "activation_params")
    plain = {key: value for key, value in node.attrs.items() if key not in fused}
    clamps = node.has("activation") and node.text("activation") == "clip"
    ends = [fresh_name(taken, f"{node.outputs[0]}.apart") for _ in range(bool(inputs[3]) + clamps)]
    ends.append(node.outputs[0])
    kept = inputs[:3] if inputs[2] else inputs[:2]
    yield Node("conv", kept, (ends[0],), plain, node.name)
    if inputs[3]:
        yield Node("add", (ends[0], inputs[3]), (ends[1],))
    if clamps:
        params = node.numbers("activation_params")
        bounds = [fresh_name(taken, f"{node.outputs[0]}.bound") for _ in params]
        for name, bound in zip(bounds, params, strict=True):
            constants[name] = _fixed(np.asarray(bound, np.float32))
        yield Node("clip", (ends[-2], *bounds), (ends[-1],))


def _stored(graph: Graph) -> Iterator[tuple[Node, Array]]:
    """Yield each node that reads constant levels, and the levels."""
    for node in graph.nodes:
        if node.op == "dequantize_linear" and node.inputs[0] in graph.constants:
            yield node, graph.constants[node.inputs[0]]


def _steps(node: Node, graph: Graph) -> tuple[Array, Array]:
    """Return scale and zero point, in shapes that broadcast with the levels."""
    levels = graph.constants[node.inputs[0]]
    scale = graph.constants[node.inputs[1]]
    zero = graph.constants[node.inputs[2]] if len(node.inputs) > 2 else np.zeros_like(scale)
    if not scale.ndim:
        return scale, zero.astype(np.float64)
    shape = [1] * levels.ndim
    shape[node.integer("axis") % levels.ndim] = scale.size
    return scale.reshape(shape), zero.reshape(shape).astype(np.float64)


def _float(node: Node, graph: Graph) -> Array:
    scale, zero = _steps(node, graph)
    return _fixed(((graph.constants[node.inputs[0]] - zero) * scale).astype(np.float32))


def _fixed(value: Array) -> Array:
    value.flags.writeable = False
    return value


def _with_what_is_read(
    graph: Graph, nodes: Sequence[Node], constants: Mapping[str, Array]
) -> Graph:
    read = {name for node in nodes for name in node.inputs} | {*graph.outputs}
    kept = {name: value for name, value in constants.items() if name in read}
    return graph.with_nodes(tuple(nodes), kept)
