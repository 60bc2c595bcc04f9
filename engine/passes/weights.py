"""Layers with constant weights, and how their outputs are scaled and shifted by channel.

The channels of every layer's output are axis 1: conv, conv_transpose and gemm alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from palmkit.engine.ir import Array, Node
from palmkit.engine.passes.rewrite import Draft, input_at, with_attrs

LAYERS = ("conv", "conv_transpose", "gemm")


def channels(draft: Draft, layer: Node) -> int | None:
    """How many channels the layer gives; None if its weights are not constant."""
    weight = draft.constant(layer.inputs[1])
    if weight is None:
        return None
    group: Any = layer.attrs.get("group", 1)
    if layer.op == "conv_transpose":
        return int(weight.shape[1] * group)
    return int(weight.shape[0 if layer.op != "gemm" or layer.attrs.get("transB", 0) else 1])


def by_channel(draft: Draft, layer: Node, value: Array) -> Array | None:
    """What broadcasts over the layer's output as one float64 number a channel; else None."""
    count = channels(draft, layer)
    rank = 2 if layer.op == "gemm" else draft.constants[layer.inputs[1]].ndim
    if count is None or value.ndim > rank:
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    if shape[1] not in (1, count) or value.size != shape[1]:
        return None
    return np.broadcast_to(value.reshape(-1), count).astype(np.float64)


def bias_of(draft: Draft, layer: Node) -> Array | None:
    """The layer's bias, one float64 number a channel; None if it is not a constant like that."""
    count = channels(draft, layer)
    if count is None:
        return None
    if not input_at(layer, 2):
        return np.zeros(count)
    bias = draft.constant(input_at(layer, 2))
    if bias is None or layer.op != "gemm":
        return None if bias is None else bias.astype(np.float64)
    spread, beta = by_channel(draft, layer, bias), layer.attrs.get("beta", 1.0)
    return None if spread is None else spread * float(cast(float, beta))


def scaled(draft: Draft, layer: Node, scale: Array, outputs: Sequence[str]) -> Node | None:
    """The layer with every output channel times `scale`; None if its bias cannot be."""
    bias = bias_of(draft, layer)
    if bias is None:
        return None
    weight = draft.constants[layer.inputs[1]]
    if layer.op == "conv":
        factor = scale.reshape(-1, *[1] * (weight.ndim - 1))
    elif layer.op == "gemm":
        factor = scale.reshape(-1, 1) if layer.attrs.get("transB", 0) else scale
    else:
        group: Any = layer.attrs.get("group", 1)
        factor = scale.reshape(group, 1, -1, *[1] * (weight.ndim - 2))
        factor = np.broadcast_to(
            factor, (group, len(weight) // group, *weight.shape[1:2], *factor.shape[3:])
        ).reshape(*weight.shape[:2], *factor.shape[3:])
    name = draft.new_constant(f"{layer.inputs[1]}/scaled", (weight * factor).astype(weight.dtype))
    return shifted(draft, _with_inputs(layer, 1, name), bias * (scale - 1), outputs)


def shifted(draft: Draft, layer: Node, shift: Array, outputs: Sequence[str]) -> Node | None:
    """The layer with `shift` added to every output channel; None if its bias cannot be."""
    bias = bias_of(draft, layer)
    if bias is None:
        return None
    node = replace(layer, outputs=tuple(outputs))
    if node.op == "gemm":
        node = with_attrs(node, beta=None)
    if input_at(layer, 2) or shift.any():
        value = (bias + shift).astype(draft.constants[layer.inputs[1]].dtype)
        node = _with_inputs(node, 2, draft.new_constant(f"{outputs[0]}/bias", value))
    return node


def _with_inputs(node: Node, place: int, name: str) -> Node:
    inputs = [*node.inputs, *[""] * (place + 1 - len(node.inputs))]
    inputs[place] = name
    return replace(node, inputs=tuple(inputs))
