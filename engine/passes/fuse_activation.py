"""An activation right after a convolution, transposed or not, becomes part of it."""

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature
from math import inf
from typing import Any

import numpy as np

from palmkit.engine.ir import Attr, Graph, Node
from palmkit.engine.ops import find
from palmkit.engine.ops.fused_conv import ACTIVATIONS
from palmkit.engine.passes.rewrite import Change, Draft, rewrite, with_attrs

# What each becomes, and at which of its inputs the slope is.
_LAYERS = {
    "conv": ("fused_conv", 4),
    "fused_conv": ("fused_conv", 4),
    "conv_transpose": ("fused_conv_transpose", 3),
}
_FUSED = ("relu", *(name for name in ACTIVATIONS if name))


def fuse_activation(graph: Graph) -> Graph:
    """relu, clip, prelu, sigmoid ... of a convolution that nobody else reads."""
    return rewrite(graph, _fuse, _FUSED)


def _fuse(draft: Draft, node: Node) -> Change:
    layer = draft.sole_producer(node.inputs[0], *_LAYERS) if node.inputs else None
    if layer is None or layer.attrs.get("activation", ""):
        return None
    name, slope = node.op, ""
    params: tuple[float, ...] = ()
    if node.op == "relu":
        name, params = "clip", (0.0, inf)
    elif node.op == "clip":
        bounds = _bounds(draft, node)
        if bounds is None:
            return None
        params = bounds
    elif node.op == "prelu":
        slope = _slope(draft, layer, node)
        if not slope:
            return None
    elif node.op == "gelu" and node.attrs.get("approximate", "none") != "none":
        return None
    else:
        params = _attributes(node, ACTIVATIONS[node.op])
    op, place = _LAYERS[layer.op]
    inputs = [*layer.inputs, *[""] * (place - len(layer.inputs))][:place]
    inputs.append(slope)
    while not inputs[-1]:
        inputs.pop()
    fused = replace(layer, op=op, inputs=tuple(inputs), outputs=node.outputs)
    extra: dict[str, Attr] = {"activation": name}
    if params:
        extra["activation_params"] = tuple(params)
    return [with_attrs(fused, **extra)]


def _bounds(draft: Draft, node: Node) -> tuple[float, float] | None:
    bounds = [-inf, inf]
    for place, name in enumerate(node.inputs[1:]):
        value = draft.constant(name) if name else None
        if name and (value is None or value.size != 1):
            return None
        if value is not None:
            bounds[place] = float(value.reshape(-1)[0])
    return bounds[0], bounds[1]


def _slope(draft: Draft, layer: Node, node: Node) -> str:
    """The slope as [m, 1, 1]; "" if it is not one number a channel, or one for all."""
    value, weight = draft.constant(node.inputs[1]), draft.constant(layer.inputs[1])
    if value is None or weight is None or value.ndim > weight.ndim:
        return ""
    outputs = len(weight)
    if layer.op == "conv_transpose":
        outputs = weight.shape[1] * int(layer.attrs.get("group", 1))  # type: ignore[arg-type]
    shape = (1,) * (weight.ndim - value.ndim) + value.shape
    if shape[1] not in (1, outputs) or value.size != shape[1]:
        return ""
    wanted = (outputs, *[1] * (weight.ndim - 2))
    if value.shape == wanted:
        return node.inputs[1]
    spread = np.broadcast_to(value.reshape(-1), outputs).reshape(wanted)
    return draft.new_constant(f"{node.outputs[0]}/slope", spread)


def _attributes(node: Node, names: Sequence[str]) -> tuple[float, ...]:
    """The attributes of the op, defaults filled in."""
    parameters = signature(find(node.op).reference).parameters
    values: Any = {name: node.attrs.get(name, parameters[name].default) for name in names}
    return tuple(float(value) for value in values.values())
