"""Layers between quantized values compute in integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.passes.levels import (
    Levels,
    Weights,
    dequantized,
    weights_of,
    written,
)
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite

_CONVOLUTIONS = ("conv", "fused_conv")
_MATRICES = ("gemm", "matmul")


def integer_layers(graph: Graph) -> Graph:
    """A convolution, gemm or matmul of quantized values and weights is a quantized_conv.

    So is one with an activation that cuts off, or a sum behind it.
    """
    return rewrite(graph, _integer, ("quantize_linear",))


@dataclass(frozen=True)
class Bounded:
    """What is rounded: the node that computes it, and within which numbers it is cut off."""

    node: Node
    least: float = -inf
    most: float = inf


def bounded(draft: Draft, name: str) -> Bounded | None:
    """What gives a value that nobody else reads, without the relu or clip behind it."""
    node = draft.producer(name)
    least, most = -inf, inf
    while node is not None and node.op in ("relu", "clip") and draft.reads(node.outputs[0]) == 1:
        found = _bounds(draft, node)
        if found is None:
            return None
        # The last one has the last word.
        least, most = (float(np.clip(each, *found)) for each in (least, most))
        node = draft.producer(node.inputs[0])
    if node is None or draft.reads(node.outputs[0]) != 1:
        return None
    return Bounded(node, least, most)


def _bounds(draft: Draft, node: Node) -> tuple[float, float] | None:
    if node.op == "relu":
        return 0.0, inf
    bounds = [-inf, inf]
    for place, name in enumerate(node.inputs[1:]):
        value = draft.constant(name) if name else None
        if name and (value is None or value.size != 1 or np.isnan(value).any()):
            return None
        if value is not None:
            bounds[place] = float(value.reshape(-1)[0])
    return (bounds[0], bounds[1]) if bounds[0] <= bounds[1] else None


def _integer(draft: Draft, node: Node) -> Change:
    y, found = written(draft, node), bounded(draft, node.inputs[0])
    if y is None or found is None:
        return None
    if found.node.op in _CONVOLUTIONS:
        return _convolution(draft, node, y, found)
    if found.node.op in (*_MATRICES, "add"):
        return _matrix(draft, node, y, found)
    return None


def _convolution(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    layer = found.node
    x = dequantized(draft, layer.inputs[0])
    weights = weights_of(draft, layer.inputs[1], 0)
    found = _activated(layer, found)
    dims = draft.dims(layer.outputs[0])
    if x is None or weights is None or dims is None or found.most < found.least:
        return None
    if weights.levels.ndim > 4 or layer.attrs.get("activation", "") not in ("", "clip"):
        return None
    if input_at(layer, 4) or layer.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    bias = _bias(draft, input_at(layer, 2), x, weights)
    if input_at(layer, 2) and bias is None:
        return None
    z = None
    if input_at(layer, 3):
        z = dequantized(draft, layer.inputs[3])
        if z is None or draft.dims(z.name) != dims:
            return None
    attrs = {k: v for k, v in layer.attrs.items() if not k.startswith("activation")}
    return [_quantized_conv(draft, node, y, x, weights, bias, z, found, attrs)]


def _activated(layer: Node, found: Bounded) -> Bounded:
    """The bounds together with the ones of the layer's own activation."""
    if layer.attrs.get("activation", "") != "clip":
        return found
    params = layer.attrs.get("activation_params", ())
    assert isinstance(params, tuple)
    least, most = (float(each) for each in params)
    outer = (found.least, found.most)
    return replace(found, least=float(np.clip(least, *outer)), most=float(np.clip(most, *outer)))


def _bias(draft: Draft, name: str, x: Levels, weights: Weights) -> Array | None:
    """The bias in steps of the products."""
    value = draft.constant(name) if name else None
    if value is None or value.reshape(-1).shape not in (weights.scales.shape, (1,)):
        return None
    if not np.isfinite(value).all():
        return None
    flat = np.broadcast_to(value.reshape(-1), weights.scales.shape)
    steps = np.rint(flat.astype(np.float64) / (np.float64(x.scale) * weights.scales))
    return np.clip(steps, -(2**31), 2**31 - 1).astype(np.int32)


def _quantized_conv(
    draft: Draft,
    node: Node,
    y: Levels,
    x: Levels,
    weights: Weights,
    bias: Array | None,
    z: Levels | None,
    found: Bounded,
    attrs: dict[str, Attr],
) -> Node:
    out = node.outputs[0]
    scale = (np.float64(x.scale) * weights.scales / np.float64(y.scale)).astype(np.float32)
    inputs = [
        x.name,
        draft.new_constant(f"{out}/weights", weights.levels),
        draft.new_constant(f"{out}/scale", scale),
        "" if bias is None else draft.new_constant(f"{out}/bias", bias),
        "" if z is None else z.name,
    ]
    low, high = y.bounds(found.least, found.most)
    attrs |= {"x_zero_point": x.zero_point, "y_zero_point": y.zero_point, "low": low, "high": high}
    if z is not None:
        attrs |= {"z_scale": float(z.scale / y.scale), "z_zero_point": z.zero_point}
    while not inputs[-1]:
        inputs.pop()
    name = found.node.name or node.name
    return Node("quantized_conv", tuple(inputs), (out,), attrs, name)


def _matrix(draft: Draft, node: Node, y: Levels, found: Bounded) -> Change:
    """x[..., k] by a matrix: a convolution of rows, each a picture of one pixel."""
    layer, bias_name = found.node, ""
    if layer.op == "add":
        for product, addend in (layer.inputs, layer.inputs[::-1]):
            inner = draft.sole_producer(product, *_MATRICES)
            if inner is not None and draft.constant(addend) is not None:
                layer, bias_name = inner, addend
                break
        else:
            return None
    elif layer.op == "gemm":
        bias_name = input_at(layer, 2)
    attrs = layer.attrs
    if layer.op == "gemm" and bias_name != input_at(layer, 2) and input_at(layer, 2):
        return None
    if attrs.get("transA", 0) or attrs.get("alpha", 1.0) != 1 or attrs.get("beta", 1.0) != 1:
        return None
    columns = 0 if attrs.get("transB", 0) else -1
    x = dequantized(draft, layer.inputs[0])
    weights = weights_of(draft, layer.inputs[1], columns)
    dims, after = draft.dims(layer.inputs[0]), draft.dims(node.outputs[0])
    if x is None or weights is None or dims is None or after is None:
        return None
    if weights.levels.ndim != 2 or len(dims) < 2 or after != (*dims[:-1], len(weights.scales)):
        return None
    bias = _bias(draft, bias_name, x, weights)
    if bias_name and (bias is None or not _is_row(draft, bias_name)):
        return None
    matrix = weights.levels if columns == 0 else weights.levels.T
    kernel = Weights(np.ascontiguousarray(matrix)[:, :, None, None], weights.scales)
    rows, out = int(np.prod(dims[:-1])), node.outputs[0]
    pixels, product = draft.new_value(f"{out}/pixels"), draft.new_value(f"{out}/product")
    shape = draft.new_constant(f"{out}/rows", np.array([rows, dims[-1], 1, 1], np.int64))
    back = draft.new_constant(f"{out}/shape", np.array(after, np.int64))
    conv = _quantized_conv(draft, node, y, replace(x, name=pixels), kernel, bias, None, found, {})
    return [
        Node("reshape", (x.name, shape), (pixels,), name=node.name),
        replace(conv, outputs=(product,), name=layer.name or node.name),
        Node("reshape", (product, back), (out,), name=node.name),
    ]


def _is_row(draft: Draft, name: str) -> bool:
    """The constant differs along its last axis only."""
    value = draft.constant(name)
    return value is not None and value.size == (value.shape[-1] if value.ndim else 1)
