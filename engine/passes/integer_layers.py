"""Layers between quantized values compute in integers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node
from palmkit.engine.ops import input_names, traits_of
from palmkit.engine.ops.fused_conv import parameters_of
from palmkit.engine.passes.bounds import bounds_of
from palmkit.engine.passes.levels import (
    Levels,
    Weights,
    are_computed_with,
    dequantized,
    weights_of,
    written,
)
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite
from palmkit.engine.passes.weights import (
    has_rows_of_outputs,
    is_convolution,
    is_matrix,
    is_unscaled,
    reads_columns,
)

_MOST_PRODUCTS = 1 << 16


def integer_layers(graph: Graph) -> Graph:
    """Rewrite convolution, gemm and matmul of quantized values and weights as quantized_conv.

    A clamp, a sloped activation or a sum behind the layer becomes part of it. A layer whose result
    is not quantized gives float32.
    """
    graph = rewrite(graph, _integer, ("quantize_linear",))
    return rewrite(graph, _real, lambda traits: is_convolution(traits) or is_matrix(traits))


@dataclass(frozen=True)
class Bounded:
    """A value to be rounded: the node that computes it, and the range it is clamped to."""

    node: Node
    least: float = -inf
    most: float = inf


def bounded(draft: Draft, name: str) -> Bounded | None:
    """Return the node that gives a value nobody else reads, without the relu or clip behind it."""
    node = draft.producer(name)
    least, most = -inf, inf
    while node is not None and traits_of(node.op).bounds and draft.reads(node.outputs[0]) == 1:
        found = bounds_of(draft, node)
        # The comparison is also False where a bound is NaN.
        if found is None or not found[0] <= found[1]:
            return None
        # The last clamp bounds the result.
        least, most = (float(np.clip(each, *found)) for each in (least, most))
        node = draft.producer(node.inputs[0])
    if node is None or draft.reads(node.outputs[0]) != 1:
        return None
    return Bounded(node, least, most)


def _integer(draft: Draft, node: Node) -> Change:
    y, found = written(draft, node), bounded(draft, node.inputs[0])
    if y is None or found is None:
        return None
    parts = _parts(draft, found.node)
    if parts is None or parts.activation or not _has_scales(parts, y.scale):
        return None
    least, most = (float(np.clip(each, found.least, found.most)) for each in parts.range)
    attrs: dict[str, Attr] = {"y_zero_point": y.zero_point}
    attrs["low"], attrs["high"] = y.bounds(least, most)
    if parts.z is not None:
        attrs |= {"z_scale": float(parts.z.scale / y.scale), "z_zero_point": parts.z.zero_point}
    return _written(draft, parts, y.scale, attrs, node.outputs[0])


def _real(draft: Draft, node: Node) -> Change:
    """Rewrite a layer of quantized values whose result is not quantized: it gives float32."""
    parts = _parts(draft, node)
    if parts is None or not _has_scales(replace(parts, z=None, slope=None), np.float32(1)):
        return None
    out = node.outputs[0]
    names = [out]
    after: list[Node] = []
    if parts.acts or parts.z is not None:
        names = [draft.new_value(f"{out}/sums")]
    plain = replace(parts, z=None, slope=None)
    layer = _written(draft, plain, np.float32(1), {"output_dtype": "float32"}, names[0])
    if parts.z is not None:
        names.append(draft.new_value(f"{out}/sum") if parts.acts else out)
        after.append(Node("add", (names[-2], node.inputs[3]), (names[-1],), name=node.name))
    if parts.acts:
        after.append(_activation(draft, node, names[-1], parts))
    return [*layer, *after]


@dataclass(frozen=True)
class _Parts:
    """A layer as a convolution of uint8 by int8.

    bias: in units of the products' scale. range: the range that the layer clamps to. activation:
    the activation behind it, if it is not a clamp. pixels: for a matrix, its rows as pictures of
    one pixel, and the dims of the result.
    """

    node: Node
    x: Levels
    weights: Weights
    bias: Array | None
    z: Levels | None = None
    slope: Array | None = None
    range: tuple[float, float] = (-inf, inf)
    activation: str = ""
    pixels: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def acts(self) -> bool:
        """Whether an activation follows the sums."""
        return bool(self.activation) or self.slope is not None or self.range != (-inf, inf)


def _has_scales(parts: _Parts, scale: np.float32) -> bool:
    """Return whether the layer can compute with its scales over that of its output."""
    own = np.float64(parts.x.scale) * parts.weights.scales / np.float64(scale)
    if parts.z is not None and not are_computed_with(parts.z.scale / scale):
        return False
    return are_computed_with(own) and (parts.slope is None or are_computed_with(parts.slope))


def _parts(draft: Draft, node: Node) -> _Parts | None:
    traits = traits_of(node.op)
    if is_convolution(traits):
        return _convolution(draft, node)
    if node.op == "prelu":
        layer = draft.sole_producer_with(node.inputs[0], is_convolution)
        parts = None if layer is None else _convolution(draft, layer)
        return None if parts is None or parts.acts else _bent(draft, parts, node.inputs[1])
    return _matrix(draft, node) if is_matrix(traits) or node.op == "add" else None


def _convolution(draft: Draft, layer: Node) -> _Parts | None:
    x = dequantized(draft, layer.inputs[0])
    weights = None if x is None else weights_of(draft, layer.inputs[1], 0)
    dims = draft.dims(layer.outputs[0])
    if x is None or weights is None or dims is None or not _fits(weights):
        return None
    if len(dims) > 4 or layer.text("auto_pad") not in ("NOTSET", "VALID"):
        return None
    bias = _bias(draft, input_at(layer, 2), x, weights)
    if input_at(layer, 2) and bias is None:
        return None
    parts = _Parts(layer, x, weights, bias)
    if input_at(layer, 3):
        z = dequantized(draft, layer.inputs[3])
        if z is None or draft.dims(z.name) != dims:
            return None
        parts = replace(parts, z=z)
    return _acting(draft, parts) if layer.has("activation") else parts


def _acting(draft: Draft, parts: _Parts) -> _Parts | None:
    """Return the layer with its activation, or None."""
    layer = parts.node
    activation, numbers = layer.text("activation"), layer.numbers("activation_params")
    traits = traits_of(activation)
    if traits.bounds is not None:
        low, high = numbers
        return replace(parts, range=(low, high)) if not high < low else None
    if traits.slope in input_names(activation):
        return _bent(draft, parts, input_at(layer, 4))
    if traits.slope:
        slope = numbers[parameters_of(activation).index(traits.slope)]
        return replace(parts, slope=np.full(len(parts.weights.scales), slope, np.float32))
    return replace(parts, activation=activation)


def _bent(draft: Draft, parts: _Parts, name: str) -> _Parts | None:
    """Return the layer with prelu's slope, or None."""
    slope = slope_of(draft, name, len(parts.weights.scales), parts.weights.levels.ndim)
    return None if slope is None else replace(parts, slope=slope)


def slope_of(draft: Draft, name: str, count: int, rank: int) -> Array | None:
    """Return prelu's slope, one number a channel; None if it is another, or not constant."""
    slope = draft.constant(name)
    if slope is None or slope.ndim > rank or not np.isfinite(slope).all():
        return None
    shape = (1,) * (rank - slope.ndim) + slope.shape
    if shape[1] not in (1, count) or slope.size != shape[1]:
        return None
    return np.broadcast_to(slope.reshape(-1), (count,)).astype(np.float32)


def _matrix(draft: Draft, root: Node) -> _Parts | None:
    """Return a product of x[..., k] and a matrix as parts.

    root: the product, or the addition of a bias to it.
    """
    layer, bias_name = root, ""
    if root.op == "add":
        for product, addend in (root.inputs, root.inputs[::-1]):
            inner = draft.sole_producer_with(product, is_matrix)
            if inner is not None and draft.constant(addend) is not None:
                layer, bias_name = inner, addend
                break
        else:
            return None
    if input_at(layer, 2):
        if bias_name:
            return None
        bias_name = input_at(layer, 2)
    if reads_columns(layer) or not is_unscaled(layer):
        return None
    columns = 0 if has_rows_of_outputs(layer) else -1
    x = dequantized(draft, layer.inputs[0])
    weights = None if x is None else weights_of(draft, layer.inputs[1], columns)
    dims, after = draft.dims(layer.inputs[0]), draft.dims(root.outputs[0])
    if x is None or weights is None or dims is None or after is None or len(dims) < 2:
        return None
    if weights.levels.ndim != 2 or after != (*dims[:-1], len(weights.scales)):
        return None
    matrix = weights.levels if columns == 0 else weights.levels.T
    kernel = Weights(np.ascontiguousarray(matrix)[:, :, None, None], weights.scales)
    bias = _bias(draft, bias_name, x, kernel)
    if (bias_name and (bias is None or not _is_row(draft, bias_name))) or not _fits(kernel):
        return None
    pixels = (int(np.prod(dims[:-1])), dims[-1], 1, 1)
    return _Parts(layer, x, kernel, bias, pixels=(pixels, after))


def _fits(weights: Weights) -> bool:
    """Return whether the sums stay within int32."""
    return 0 < weights.levels[:1].size <= _MOST_PRODUCTS


def _is_row(draft: Draft, name: str) -> bool:
    """Return whether the constant differs along its last axis only."""
    value = draft.constant(name)
    return value is not None and value.size == (value.shape[-1] if value.ndim else 1)


def _bias(draft: Draft, name: str, x: Levels, weights: Weights) -> Array | None:
    """Return the bias in units of the products' scale, or None."""
    value = draft.constant(name) if name else None
    if value is None or value.reshape(-1).shape not in (weights.scales.shape, (1,)):
        return None
    if not np.isfinite(value).all():
        return None
    flat = np.broadcast_to(value.reshape(-1), weights.scales.shape)
    steps = np.rint(flat.astype(np.float64) / (np.float64(x.scale) * weights.scales))
    return np.asarray(np.clip(steps, -(2**31), 2**31 - 1).astype(np.int32))


def _written(
    draft: Draft, parts: _Parts, scale: np.float32, attrs: dict[str, Attr], out: str
) -> list[Node]:
    """Return the layer as a quantized_conv whose output has that scale."""
    products = np.float64(parts.x.scale) * parts.weights.scales
    inputs = [
        parts.x.name,
        draft.new_constant(f"{out}/weights", parts.weights.levels),
        draft.new_constant(f"{out}/scale", (products / np.float64(scale)).astype(np.float32)),
        "" if parts.bias is None else draft.new_constant(f"{out}/bias", parts.bias),
        "" if parts.z is None else parts.z.name,
        "" if parts.slope is None else draft.new_constant(f"{out}/slope", parts.slope),
    ]
    while not inputs[-1]:
        inputs.pop()
    name = parts.node.name
    attrs = {"x_zero_point": parts.x.zero_point, **attrs}
    if parts.pixels is None:
        kept = parts.node.attrs.items()
        attrs |= {key: value for key, value in kept if not key.startswith("activation")}
        return [Node("quantized_conv", tuple(inputs), (out,), attrs, name)]
    before, after = (
        draft.new_constant(f"{out}/shape", np.array(dims, np.int64)) for dims in parts.pixels
    )
    pixels, sums = draft.new_value(f"{out}/pixels"), draft.new_value(f"{out}/sums")
    return [
        Node("reshape", (inputs[0], before), (pixels,), name=name),
        Node("quantized_conv", (pixels, *inputs[1:]), (sums,), attrs, name),
        Node("reshape", (sums, after), (out,), name=name),
    ]


def _activation(draft: Draft, layer: Node, x: str, parts: _Parts) -> Node:
    """Return the layer's activation as a node of its own."""
    op, params = layer.text("activation"), layer.numbers("activation_params")
    inputs, attrs = [x], dict[str, Attr](zip(parameters_of(op), params, strict=False))
    if op == "clip":
        bounds = (np.array(each, np.float32) for each in parts.range)
        inputs += [draft.new_constant(f"{layer.outputs[0]}/bound", each) for each in bounds]
        attrs = {}
    elif op == "prelu":
        inputs.append(layer.inputs[4])
    return Node(op, tuple(inputs), layer.outputs, attrs, layer.name)
