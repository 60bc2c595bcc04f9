"""Scaling by channel folds into the weights of the layer before it."""

import numpy as np

from palmkit.engine.ir import Array, Graph, Node, dtype_name
from palmkit.engine.ops import traits_of
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.weights import by_channel, is_plain_layer, scaled


def fold_batch_norm(graph: Graph) -> Graph:
    """Fold mul and div by channel into the layer before; batch_normalization is mul and add."""
    return rewrite(graph, _fold, ("batch_normalization", "mul", "div"))


def _fold(draft: Draft, node: Node) -> Change:
    if node.op == "batch_normalization":
        return _as_mul_and_add(draft, node)
    x, factor = node.inputs
    if node.op == "mul" and draft.constant(factor) is None:
        x, factor = factor, x
    layer, value = draft.sole_producer_with(x, is_plain_layer), draft.constant(factor)
    scale = None if layer is None or value is None else by_channel(draft, layer, value)
    if layer is None or scale is None:
        return None
    new = scaled(draft, layer, scale if node.op == "mul" else 1 / scale, node.outputs)
    return None if new is None else [new]


def _as_mul_and_add(draft: Draft, node: Node) -> Change:
    constants = [draft.constant(name) for name in node.inputs[1:]]
    values = [value.astype(np.float64) for value in constants if value is not None]
    dtype, rank = _dtype_and_rank(draft, node.inputs[0])
    if len(values) != 4 or rank is None or node.integer("training_mode"):
        return None
    kind = draft.constants[node.inputs[1]].dtype
    if dtype != kind.name:
        # The op computes in the wider of two float dtypes, while mul and add take equal ones only.
        return None
    gamma, beta, mean, variance = values
    factor = gamma / np.sqrt(variance + node.number("epsilon"))
    y = node.outputs[0]

    def constant(what: str, value: Array) -> str:
        shape = (-1, *[1] * (rank - 2))
        return draft.new_constant(f"{y}/{what}", value.astype(kind).reshape(shape))

    product = draft.new_value(f"{y}/product")
    scale, shift = constant("scale", factor), constant("shift", beta - mean * factor)
    return [
        Node("mul", (node.inputs[0], scale), (product,), name=node.name),
        Node("add", (product, shift), (y,), name=node.name),
    ]


def _dtype_and_rank(draft: Draft, name: str) -> tuple[str, int | None]:
    """Return the dtype and rank of a value, known behind a layer even where its dims are not."""
    layer, type = draft.producer(name), draft.type(name)
    if type is not None and type.has_rank:
        return type.dtype, len(type.shape)
    is_layer = layer is not None and is_plain_layer(traits_of(layer.op))
    weight = draft.constant(layer.inputs[1]) if layer is not None and is_layer else None
    return ("", None) if weight is None else (dtype_name(weight.dtype), weight.ndim)
