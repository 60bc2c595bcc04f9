"""Sums and slopes that follow a convolution of integers and round by themselves join it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Attr, Graph, Node
from palmkit.engine.ops import input_names, traits_of
from palmkit.engine.passes.integer_layers import bounded, slope_of
from palmkit.engine.passes.levels import are_computed_with, dequantized, written
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite, with_attrs


def integer_residuals(graph: Graph) -> Graph:
    """Fuse quantized_add into a quantized_conv that nobody else reads.

    Of two convolutions the later one takes the other in: it runs when the other is ready. Channels
    that a pad gave to the addend add nothing.
    """
    graph = rewrite(graph, _residual, ("quantized_add",))
    return rewrite(graph, _narrower, ("quantized_conv",))


def integer_slopes(graph: Graph) -> Graph:
    """Fuse prelu and leaky_relu into a quantized_conv that nobody else reads."""
    return rewrite(graph, _bent, ("quantize_linear",))


def _as_own(layer: Node, kind: str) -> dict[str, Attr]:
    """Return the range of a quantized_conv's output as that of its inner rounding, or its sum's."""
    return {
        f"{kind}_zero_point": layer.integer("y_zero_point"),
        f"{kind}_low": layer.integer("low"),
        f"{kind}_high": layer.integer("high"),
    }


def _residual(draft: Draft, node: Node) -> Change:
    a, b = node.inputs
    sides = (("a", a, "b", b), ("b", b, "a", a))
    for own, x, other, z in sides if draft.place(a) > draft.place(b) else sides[::-1]:
        layer = draft.sole_producer(x, "quantized_conv")
        if layer is None or len(layer.inputs) > 4:
            continue
        if draft.dims(x) != draft.dims(z) or draft.constant(z) is not None:
            continue
        attrs = {**layer.attrs, **_as_own(layer, "inner")}
        attrs |= {name: node.integer(name) for name in ("y_zero_point", "low", "high")}
        attrs["inner_scale"] = node.number(f"{own}_scale")
        attrs["z_scale"] = node.number(f"{other}_scale")
        attrs["z_zero_point"] = node.integer(f"{other}_zero_point")
        inputs = (*layer.inputs, *[""] * (4 - len(layer.inputs)), z)
        return [replace(layer, inputs=inputs, outputs=node.outputs, attrs=attrs)]
    return None


def _narrower(draft: Draft, node: Node) -> Change:
    pad = draft.producer(input_at(node, 4)) if input_at(node, 4) else None
    if pad is None or pad.op != "pad" or pad.text("mode") != "constant":
        return None
    amounts, fill = draft.constant(input_at(pad, 1)), draft.constant(input_at(pad, 2))
    if amounts is None or fill is None or input_at(pad, 3):
        return None
    behind_channels = amounts.size // 2 + 1
    elsewhere = np.delete(amounts, behind_channels)
    if elsewhere.any() or amounts[behind_channels] < 0:
        return None
    if int(fill.reshape(-1)[0]) != node.integer("z_zero_point"):
        return None
    return [replace(node, inputs=(*node.inputs[:4], pad.inputs[0], *node.inputs[5:]))]


def _bent(draft: Draft, node: Node) -> Change:
    y, found = written(draft, node), bounded(draft, node.inputs[0])
    slope_name = "" if found is None else traits_of(found.node.op).slope
    if y is None or found is None or not slope_name:
        return None
    x = dequantized(draft, found.node.inputs[0])
    layer = None if x is None else draft.sole_producer(x.name, "quantized_conv")
    if x is None or layer is None or draft.reads(found.node.inputs[0]) != 1:
        return None
    if len(layer.inputs) > 5 or layer.text("output_dtype") != "uint8":
        return None
    weights = draft.constant(input_at(layer, 1))
    if weights is None or not len(weights):
        return None
    if slope_name in input_names(found.node.op):
        slope = slope_of(draft, found.node.inputs[1], len(weights), weights.ndim)
    else:
        slope = np.full(len(weights), found.node.number(slope_name), np.float32)
    if slope is None or not are_computed_with(slope, x.scale / y.scale):
        return None
    low, high = y.bounds(found.least, found.most)
    layer = with_attrs(
        layer,
        **_as_own(layer, "sum"),
        sum_scale=float(x.scale / y.scale),
        y_zero_point=y.zero_point,
        low=low,
        high=high,
    )
    name = draft.new_constant(f"{node.outputs[0]}/slope", slope)
    inputs = (*layer.inputs, *[""] * (5 - len(layer.inputs)), name)
    return [replace(layer, inputs=inputs, outputs=node.outputs)]
