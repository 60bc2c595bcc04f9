"""Layers with constant weights, and how what they read and write is scaled and shifted by channel.

The channels are axis 1 of conv, conv_transpose and gemm, and the last axis of matmul.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Array, Node
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Layer, Traits
from palmkit.engine.passes.rewrite import Draft, input_at, with_attrs


def is_plain_layer(traits: Traits) -> bool:
    """Return whether a layer only multiplies and adds a bias."""
    return traits.layer is not None and not traits.is_fused


def is_convolution(traits: Traits) -> bool:
    """Return whether it is a convolution, fused or not, that is not transposed."""
    return traits.layer is Layer.CONVOLUTION


def is_matrix(traits: Traits) -> bool:
    """Return whether it is a product by a matrix."""
    return traits.layer is Layer.MATRIX


def kind_of(layer: Node) -> Layer | None:
    """Return the kind of a layer; None if the node is no layer."""
    return traits_of(layer.op).layer


def has_rows_of_outputs(layer: Node) -> bool:
    """Return whether the weights of one output channel form a row."""
    return kind_of(layer) is Layer.CONVOLUTION or (
        layer.op == "gemm" and layer.integer("transB") != 0
    )


def groups_of(layer: Node) -> int:
    """Return how many groups of channels a convolution has; 1 for a matrix."""
    return 1 if kind_of(layer) is Layer.MATRIX else layer.integer("group")


def reads_columns(layer: Node) -> bool:
    """Return whether it is a gemm that takes the transpose of its first input."""
    return layer.op == "gemm" and layer.integer("transA") != 0


def is_unscaled(layer: Node) -> bool:
    """Return whether neither the product nor its bias is multiplied by another number."""
    return layer.op != "gemm" or layer.number("alpha") == layer.number("beta") == 1


def pads_nothing(layer: Node) -> bool:
    """Return whether it is a convolution without padding."""
    return layer.text("auto_pad") in ("NOTSET", "VALID") and not any(layer.integers("pads"))


def channels(draft: Draft, layer: Node) -> int | None:
    """Return how many channels the layer gives; None if its weights are not constant."""
    weight = draft.constant(layer.inputs[1])
    if weight is None or (layer.op == "matmul" and weight.ndim != 2):
        return None
    if kind_of(layer) is Layer.TRANSPOSED:
        return int(weight.shape[1] * groups_of(layer))
    if has_rows_of_outputs(layer):
        return len(weight)
    return int(weight.shape[1])


def input_channels(draft: Draft, layer: Node) -> int | None:
    """Return how many channels the layer reads; None if its weights are not constant."""
    weight = draft.constant(layer.inputs[1])
    if weight is None or reads_columns(layer) or (layer.op == "matmul" and weight.ndim != 2):
        return None
    if has_rows_of_outputs(layer):
        return int(weight.shape[1] * groups_of(layer))
    return len(weight)


def by_channel(draft: Draft, layer: Node, value: Array) -> Array | None:
    """Return a value that broadcasts over the output as one float64 number a channel, or None."""
    return _spread(draft, layer, value, channels(draft, layer), layer.outputs[0])


def by_input_channel(draft: Draft, layer: Node, value: Array) -> Array | None:
    """Return a value that broadcasts over the input as one float64 number a channel, or None."""
    return _spread(draft, layer, value, input_channels(draft, layer), layer.inputs[0])


def _spread(draft: Draft, layer: Node, value: Array, count: int | None, name: str) -> Array | None:
    if count is None:
        return None
    if layer.op == "matmul":
        dims = draft.dims(name)
        rank = 2 if value.ndim < 2 else 0 if dims is None else len(dims)
        axis = rank - 1
    else:
        rank, axis = (2 if layer.op == "gemm" else draft.constants[layer.inputs[1]].ndim), 1
    if value.ndim > rank:
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    if shape[axis] not in (1, count) or value.size != shape[axis]:
        return None
    return np.broadcast_to(value.reshape(-1), count).astype(np.float64)


def bias_of(draft: Draft, layer: Node) -> Array | None:
    """Return the layer's bias, one float64 number a channel; None if it is no such constant."""
    count = channels(draft, layer)
    if count is None:
        return None
    if layer.op == "matmul" or not input_at(layer, 2):
        return np.zeros(count)
    bias = draft.constant(input_at(layer, 2))
    if bias is None or layer.op != "gemm":
        return None if bias is None else bias.astype(np.float64)
    spread = by_channel(draft, layer, bias)
    return None if spread is None else spread * layer.number("beta")


def scaled(draft: Draft, layer: Node, scale: Array, outputs: Sequence[str]) -> Node | None:
    """Return the layer with every output channel times `scale`.

    Returns None if its bias cannot be scaled, or if its weights overflow.
    """
    bias = bias_of(draft, layer)
    if bias is None:
        return None
    weight = draft.constants[layer.inputs[1]]
    if has_rows_of_outputs(layer):
        factor = scale.reshape(-1, *[1] * (weight.ndim - 1))
    elif kind_of(layer) is Layer.MATRIX:
        factor = scale
    else:
        group = groups_of(layer)
        factor = scale.reshape(group, 1, -1, *[1] * (weight.ndim - 2))
        factor = np.broadcast_to(
            factor, (group, len(weight) // group, *weight.shape[1:2], *factor.shape[3:])
        ).reshape(*weight.shape[:2], *factor.shape[3:])
    name = _times(draft, layer, factor)
    if name is None:
        return None
    return shifted(draft, _with_inputs(layer, 1, name), bias * (scale - 1), outputs)


def scaled_input(draft: Draft, layer: Node, scale: Array, x: str) -> Node | None:
    """Return the layer that reads x times `scale` as one that reads x; None if weights overflow."""
    weight = draft.constants[layer.inputs[1]]
    if kind_of(layer) is Layer.CONVOLUTION:
        group = groups_of(layer)
        factor = np.repeat(scale.reshape(group, -1), len(weight) // group, 0)
        factor = factor.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))
    elif has_rows_of_outputs(layer):
        factor = scale
    else:
        factor = scale.reshape(-1, *[1] * (weight.ndim - 1))
    name = _times(draft, layer, factor)
    return None if name is None else replace(layer, inputs=(x, name, *layer.inputs[2:]))


def shifted_input(draft: Draft, layer: Node, shift: Array, x: str) -> Node | None:
    """Return the layer that reads x plus `shift` as one that reads x.

    Returns None if it pads, or has no bias that can take the shift.
    """
    weight = draft.constants[layer.inputs[1]].astype(np.float64)
    if kind_of(layer) is Layer.CONVOLUTION:
        if not pads_nothing(layer):
            return None
        group = groups_of(layer)
        taps = weight.sum(tuple(range(2, weight.ndim)))
        spread = np.repeat(shift.reshape(group, -1), len(weight) // group, 0)
        sums = (taps * spread).sum(1)
    elif kind_of(layer) is Layer.MATRIX:
        alpha = layer.number("alpha") if layer.op == "gemm" else 1.0
        sums = alpha * (weight @ shift if has_rows_of_outputs(layer) else shift @ weight)
    else:
        return None
    return shifted(draft, replace(layer, inputs=(x, *layer.inputs[1:])), sums, layer.outputs)


def shifted(draft: Draft, layer: Node, shift: Array, outputs: Sequence[str]) -> Node | None:
    """Return the layer with `shift` added to every output channel; None if its bias cannot be."""
    bias = bias_of(draft, layer)
    if bias is None or (layer.op == "matmul" and shift.any()):
        return None
    node = replace(layer, outputs=tuple(outputs))
    if node.op == "gemm":
        node = with_attrs(node, beta=None)
    if node.op != "matmul" and (input_at(layer, 2) or shift.any()):
        value = (bias + shift).astype(draft.constants[layer.inputs[1]].dtype)
        node = _with_inputs(node, 2, draft.new_constant(f"{outputs[0]}/bias", value))
    return node


def _times(draft: Draft, layer: Node, factor: Array) -> str | None:
    """Return the weights times `factor`, as a constant; None if they overflow."""
    weight = draft.constants[layer.inputs[1]]
    product = (weight * factor).astype(weight.dtype)
    if not np.isfinite(product).all() and np.isfinite(weight).all():
        return None
    return draft.new_constant(f"{layer.inputs[1]}/scaled", product)


def _with_inputs(node: Node, place: int, name: str) -> Node:
    inputs = [*node.inputs, *[""] * (place + 1 - len(node.inputs))]
    inputs[place] = name
    return replace(node, inputs=tuple(inputs))
