"""ONNX Runtime's own float operators, which its optimisers write, in terms of those of ONNX.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.ir import Attr

_ACTIVATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Tanh": ("tanh", ()),
    "LeakyRelu": ("leaky_relu", ("alpha",)),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "Clip": ("clip", ("min", "max")),
}
"""ONNX's activations by name, and what their numbers are called."""


def _number(node: Foreign, value: float) -> str:
    return node.constant(np.array(value, np.float32))


def _activate(node: Foreign, x: str, activation: str, numbers: tuple[float, ...]) -> None:
    """Write the activation of x as the node's output."""
    if activation not in _ACTIVATIONS:
        raise node.unsupported(f"activation {activation}")
    op, names = _ACTIVATIONS[activation]
    if op == "clip":
        node.emit(op, [x, *(_number(node, each) for each in numbers)])
    else:
        node.emit(op, [x], dict(zip(names, numbers, strict=False)))


@rule("com.microsoft.FusedConv")
def _fused_conv(node: Foreign) -> None:
    own = ("activation", "activation_params")
    attrs = {name: value for name, value in node.attrs.items() if name not in own}
    y = node.emit_value("conv", node.inputs[:3], attrs)
    if node.input(3):
        y = node.emit_value("add", [y, node.input(3)])
    if node.string("activation"):
        _activate(node, y, node.string("activation"), node.numbers("activation_params"))
    else:
        node.emit("identity", [y])


@rule("com.microsoft.FusedGemm")
def _fused_gemm(node: Foreign) -> None:
    attrs = {name: value for name, value in node.attrs.items() if "activation" not in name}
    given = [
        f"activation_{name}" for name in ("alpha", "beta") if f"activation_{name}" in node.protos
    ]
    y = node.emit_value("gemm", node.inputs, attrs)
    _activate(node, y, node.string("activation"), tuple(node.number(name, 0) for name in given))


@rule("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def _fused_matmul(node: Foreign) -> None:
    operands = [_turned(node, place, letter) for place, letter in enumerate("AB")]
    alpha = node.number("alpha", 1.0)
    if alpha == 1.0:
        node.emit("matmul", operands)
    else:
        node.emit("mul", [node.emit_value("matmul", operands), _number(node, alpha)])


def _turned(node: Foreign, place: int, letter: str) -> str:
    """Return an operand, transposed if asked for; its rank is unknown here, so einsum does it."""
    rows_first = bool(node.integer(f"transBatch{letter}", 0))
    is_turned = bool(node.integer(f"trans{letter}", 0))
    if not rows_first and not is_turned:
        return node.input(place)
    before, after = "i...j" if rows_first else "...ij", "...ji" if is_turned else "...ij"
    return node.emit_value("einsum", [node.input(place)], {"equation": f"{before}->{after}"})


@rule("com.microsoft.Gelu")
def _gelu(node: Foreign) -> None:
    node.emit("gelu", node.inputs)


@rule("com.microsoft.BiasGelu")
def _bias_gelu(node: Foreign) -> None:
    node.emit("gelu", [node.emit_value("add", node.inputs)])


@rule("com.microsoft.FastGelu")
def _fast_gelu(node: Foreign) -> None:
    x = node.emit_value("add", node.inputs) if node.input(1) else node.input(0)
    node.emit("gelu", [x], {"approximate": "tanh"})


@rule("com.microsoft.QuickGelu")
def _quick_gelu(node: Foreign) -> None:
    x = node.input(0)
    scaled = node.emit_value("mul", [x, _number(node, node.number("alpha", 1.702))])
    node.emit("mul", [x, node.emit_value("sigmoid", [scaled])])


@rule("com.microsoft.BiasAdd")
def _bias_add(node: Foreign) -> None:
    node.emit("add", [node.emit_value("add", node.inputs[:2]), node.input(2)])


@rule("com.microsoft.SkipLayerNormalization")
def _skip_layer_normalization(node: Foreign) -> None:
    x, gamma, beta = _skipped(node, 4), node.input(2), node.input(3)
    attrs = {"epsilon": node.number("epsilon", 1e-12)}
    node.emit("layer_normalization", [x, gamma, beta], attrs, node.outputs[:3])


@rule("com.microsoft.SkipSimplifiedLayerNormalization")
def _skip_simplified(node: Foreign) -> None:
    attrs = {"epsilon": node.number("epsilon", 1e-12)}
    inputs = [_skipped(node, 3), node.input(2)]
    node.emit("rms_normalization", inputs, attrs, node.outputs[:1])


@rule("simplified_layer_normalization")
def _simplified_layer_normalization(node: Foreign) -> None:
    """Convert the operator, which is in ONNX's own domain though not in its standard."""
    attrs = {name: value for name, value in node.attrs.items() if name in ("axis", "epsilon")}
    node.emit("rms_normalization", node.inputs, attrs, node.outputs[:1])


def _skipped(node: Foreign, bias: int) -> str:
    """Return input + skip + bias, which may be asked for as the fourth output."""
    x = node.emit_value("add", node.inputs[:2])
    if node.input(bias):
        x = node.emit_value("add", [x, node.input(bias)])
    if len(node.outputs) > 3 and node.outputs[3]:
        node.emit("identity", [x], outputs=[node.outputs[3]])
    return x


@rule("com.microsoft.EmbedLayerNormalization")
def _embed_layer_normalization(node: Foreign) -> None:
    """Write the normalised sum of three embedding rows, and each row's mask count."""
    ids, segments, words, places, kinds, gamma, beta, mask = (node.input(i) for i in range(8))
    if node.input(8):
        position = node.emit_value("gather", [places, node.input(8)])
    else:
        shape = node.emit_value("shape", [ids])
        zero, one = node.constant(np.array(0)), node.constant(np.array(1))
        length = node.emit_value("gather", [shape, one])
        position = node.emit_value(
            "gather", [places, node.emit_value("range", [zero, length, one])]
        )
    total = node.emit_value("add", [node.emit_value("gather", [words, ids]), position])
    if segments:
        total = node.emit_value("add", [total, node.emit_value("gather", [kinds, segments])])
    if len(node.outputs) > 2 and node.outputs[2]:
        node.emit("identity", [total], outputs=[node.outputs[2]])
    attrs = {"epsilon": node.number("epsilon", 1e-12)}
    node.emit("layer_normalization", [total, gamma, beta], attrs, node.outputs[:1])
    if len(node.outputs) > 1 and node.outputs[1]:
        _emit_mask_index(node, mask, ids)


def _emit_mask_index(node: Foreign, mask: str, ids: str) -> None:
    """Write the second output: how many words count in each row of ids, 0 without a mask."""
    if mask:
        axes = node.constant(np.array([1]))
        node.emit("reduce_sum", [mask, axes], {"keepdims": 0}, [node.outputs[1]])
        return
    shape = node.emit_value("shape", [ids])
    rows = node.emit_value("gather", [shape, node.constant(np.array([0]))])
    node.emit("expand", [node.constant(np.array(0, np.int32)), rows], outputs=[node.outputs[1]])


@rule("com.microsoft.Attention")
def _attention(node: Foreign) -> None:
    """Write self-attention with one matrix for queries, keys and values, without a past."""
    x, weights, bias, mask = (node.input(i) for i in range(4))
    if any(node.input(i) for i in (4, 5, 6)):
        raise node.unsupported("a past, or a bias of the scores,")
    emit_attention(node, x, weights, bias, mask)


def emit_attention(node: Foreign, x: str, weights: str, bias: str, mask: str) -> None:
    """Write self-attention of x; weights are those of queries, keys and values side by side."""
    if len(node.outputs) > 1:
        raise node.unsupported("an output of keys and values")
    if node.integer("do_rotary", 0) or node.attrs.get("qkv_hidden_sizes"):
        raise node.unsupported("do_rotary or qkv_hidden_sizes")
    product = node.emit_value("matmul", [x, weights])
    product = node.emit_value("add", [product, bias]) if bias else product
    parts = [node.value(stem) for stem in ("query", "key", "value")]
    node.emit("split", [product], {"axis": -1, "num_outputs": 3}, parts)
    _emit_heads(node, parts, _key_mask(node, mask) if mask else "")


@rule("com.microsoft.MultiHeadAttention")
def _multi_head_attention(node: Foreign) -> None:
    query, key, value, bias, mask, added = (node.input(i) for i in range(6))
    if not key or not value or any(node.inputs[6:]) or len(node.outputs) > 1:
        raise node.unsupported("packed inputs or a past")
    if mask and added:
        raise node.unsupported("a mask and a bias of the scores at once")
    parts = [query, key, value]
    if bias:
        known = node.known(3)
        if known is None or known.size % 3:
            raise node.unsupported("a bias that is computed")
        thirds = map(node.constant, np.split(known.reshape(-1), 3))
        parts = [node.emit_value("add", pair) for pair in zip(parts, thirds, strict=True)]
    _emit_heads(node, parts, _key_mask(node, mask) if mask else added)


def _emit_heads(node: Foreign, parts: list[str], mask: str) -> None:
    heads = node.integer("num_heads", 0)
    attrs: dict[str, Attr] = {"q_num_heads": heads, "kv_num_heads": heads}
    attrs["is_causal"] = node.integer("unidirectional", 0)
    if node.number("scale", 0):
        attrs["scale"] = node.number("scale", 0)
    node.emit("attention", [*parts, *([mask] if mask else [])], attrs)


def _key_mask(node: Foreign, mask: str) -> str:
    """Bring int32[batch, keys], 1 where a key counts, to the rank of [batch, heads, q, keys]."""
    seen = node.emit_value("cast", [mask], {"to": "bool"})
    return node.emit_value("unsqueeze", [seen, node.constant(np.array([1, 2]))])
