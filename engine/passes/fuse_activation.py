"""An activation right after a convolution, transposed or not, becomes part of it."""

from dataclasses import replace

import numpy as np

from palmkit.engine.ir import Attr, Graph, Node
from palmkit.engine.ops import find, input_names, traits_of
from palmkit.engine.ops.traits import Layer, Traits
from palmkit.engine.passes.bounds import bounds_of
from palmkit.engine.passes.rewrite import Change, Draft, rewrite, with_attrs


def fuse_activation(graph: Graph) -> Graph:
    """Fuse relu, clip, prelu, sigmoid ... into a convolution that nobody else reads."""
    return rewrite(graph, _fuse, _is_fusable)


def _is_fusable(traits: Traits) -> bool:
    return traits.activation is not None or traits.bounds is not None


def _fuse(draft: Draft, node: Node) -> Change:
    layer = draft.sole_producer_with(node.inputs[0], _takes_activation) if node.inputs else None
    if layer is None or layer.has("activation"):
        return None
    slope, extra = "", dict[str, Attr]()
    if traits_of(node.op).bounds is not None:
        bounds = bounds_of(draft, node)
        if bounds is None:
            return None
        extra = {"activation": "clip", "activation_params": bounds}
    else:
        found = _activation(node)
        if found is None:
            return None
        extra = found
        if len(node.inputs) > 1:
            slope = _slope(draft, layer, node)
            if not slope:
                return None
    op = traits_of(layer.op).fused
    place = input_names(op).index("slope")
    inputs = [*layer.inputs, *[""] * (place - len(layer.inputs))][:place]
    inputs.append(slope)
    while not inputs[-1]:
        inputs.pop()
    fused = replace(layer, op=op, inputs=tuple(inputs), outputs=node.outputs)
    return [with_attrs(fused, **extra)]


def _takes_activation(traits: Traits) -> bool:
    return bool(traits.fused)


def _activation(node: Node) -> dict[str, Attr] | None:
    """Return the attributes of a layer with this activation; None if it lacks any of the node's."""
    names = traits_of(node.op).activation or ()
    params = tuple(node.number(name) for name in names)
    others = find(node.op).defaults.items()
    if any(node.attrs.get(name, plain) != plain for name, plain in others if name not in names):
        return None
    return {"activation": node.op, **({"activation_params": params} if params else {})}


def _slope(draft: Draft, layer: Node, node: Node) -> str:
    """Return the slope as [m, 1, 1]; "" unless it is one number a channel, or one for all."""
    value, weight = draft.constant(node.inputs[1]), draft.constant(layer.inputs[1])
    if value is None or weight is None or value.ndim > weight.ndim:
        return ""
    outputs = len(weight)
    if traits_of(layer.op).layer is Layer.TRANSPOSED:
        outputs = weight.shape[1] * layer.integer("group")
    shape = (1,) * (weight.ndim - value.ndim) + value.shape
    if shape[1] not in (1, outputs) or value.size != shape[1]:
        return ""
    wanted = (outputs, *[1] * (weight.ndim - 2))
    if value.shape == wanted:
        return node.inputs[1]
    spread = np.broadcast_to(value.reshape(-1), outputs).reshape(wanted)
    return draft.new_constant(f"{node.outputs[0]}/slope", spread)
