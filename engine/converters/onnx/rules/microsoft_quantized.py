"""ONNX Runtime's own quantized operators: floats between dequantize_linear and quantize_linear.

Source: ONNX Runtime, docs/ContribOperators.md.
"""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.rules.microsoft import emit_attention
from palmkit.engine.converters.onnx.rules.quantization import (
    dequantized,
    dequantized_bias,
    emit_quantized,
)
from palmkit.engine.ir import Array


@rule("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def _binary(node: Foreign) -> None:
    op = node.op.removeprefix("com.microsoft.QLinear").lower()
    emit_quantized(node, node.emit_value(op, [dequantized(node, 0), dequantized(node, 3)]), 6)


@rule(
    "com.microsoft.QLinearSigmoid",
    "com.microsoft.QLinearLeakyRelu",
    "com.microsoft.QLinearAveragePool",
    "com.microsoft.QLinearGlobalAveragePool",
    "com.microsoft.QLinearReduceMean",
    "com.microsoft.QLinearSoftmax",
)
def _unary(node: Foreign) -> None:
    attrs = node.attrs
    op = {
        "Sigmoid": "sigmoid",
        "LeakyRelu": "leaky_relu",
        "AveragePool": "average_pool",
        "GlobalAveragePool": "global_average_pool",
        "ReduceMean": "reduce_mean",
        "Softmax": "softmax",
    }[node.op.removeprefix("com.microsoft.QLinear")]
    if attrs.pop("channels_last", 0):
        raise node.unsupported("channels_last")
    inputs = [dequantized(node, 0)]
    if op == "reduce_mean":
        axes = attrs.pop("axes", None)
        inputs += [] if axes is None else [node.constant(np.array(axes, np.int64))]
    if op == "softmax" and attrs.pop("opset", 13) != 13:
        raise node.unsupported("the softmax of opset 12 or older")
    emit_quantized(node, node.emit_value(op, inputs, attrs), 3)


@rule("com.microsoft.QLinearConcat")
def _concat(node: Foreign) -> None:
    parts = [dequantized(node, first) for first in range(2, len(node.inputs), 3)]
    emit_quantized(node, node.emit_value("concat", parts, node.attrs), 0)


@rule("com.microsoft.QGemm")
def _gemm(node: Foreign) -> None:
    attrs = node.attrs
    columns = 0 if attrs.get("transB", 0) else 1
    inputs = [dequantized(node, 0), dequantized(node, 3, axis=columns)]
    y = node.emit_value("gemm", inputs, attrs)
    if node.input(6):
        # The levels of c have the scale alpha * scale of a * scale of b.
        c = dequantized_bias(node, 6, 1, 4)
        alpha = node.number("alpha", 1.0)
        if alpha != 1.0:
            c = node.emit_value("mul", [c, node.constant(np.array(alpha, np.float32))])
        y = node.emit_value("add", [y, c])
    if node.input(7):
        emit_quantized(node, y, 7)
    else:
        node.emit("identity", [y])


@rule("com.microsoft.QAttention")
def _attention(node: Foreign) -> None:
    x, weights, bias, x_scale, w_scale, mask, x_zero, w_zero = (node.input(i) for i in range(8))
    if any(node.inputs[8:]):
        raise node.unsupported("a past")
    x = node.emit_value("dequantize_linear", [x, x_scale, x_zero])
    weights = node.emit_value("dequantize_linear", [weights, w_scale, w_zero], {"axis": 1})
    emit_attention(node, x, weights, bias, mask)


@rule("com.microsoft.DynamicQuantizeMatMul")
def _dynamic_matmul(node: Foreign) -> None:
    levels, scale, zero = (node.value(stem) for stem in ("levels", "scale", "zero"))
    node.emit("dynamic_quantize_linear", [node.input(0)], outputs=[levels, scale, zero])
    product = node.emit_value("matmul_integer", [levels, node.input(1), zero, node.input(3)])
    _scale(node, product, [scale, node.input(2)], node.input(4))


@rule("com.microsoft.MatMulIntegerToFloat")
def _matmul_to_float(node: Foreign) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (node.input(i) for i in range(7))
    known = node.scope.constants.get(a_scale)
    if known is None or known.size > 1:
        a_scale = node.emit_value("reshape", [a_scale, node.constant(np.array([-1, 1]))])
    _scale(
        node,
        node.emit_value("matmul_integer", [a, b, a_zero, b_zero]),
        [a_scale, b_scale],
        bias,
    )


def _scale(node: Foreign, product: str, scales: list[str], bias: str) -> None:
    """Write the output: int32 times the scales, plus a bias if there is one."""
    y = node.emit_value("cast", [product], {"to": "float32"})
    y = node.emit_value("mul", [y, node.emit_value("mul", scales)])
    node.emit("add" if bias else "identity", [y, bias] if bias else [y])


@rule("com.microsoft.DynamicQuantizeLSTM")
def _dynamic_lstm(node: Foreign) -> None:
    """Dequantize the weights; the op rounds x and h to 8 bits, as ONNX Runtime does."""
    weights: list[str] = []
    for levels, first in ((node.input(1), 8), (node.input(2), 10)):
        scale, zero = node.known(first), node.known(first + 1)
        if scale is None or zero is None:
            raise node.unsupported("a scale that is computed")
        # One number for each direction, or one for each of its columns.
        parts = [
            node.constant(each.astype(np.float32).reshape(len(each), 1, -1))
            for each in (scale, zero)
        ]
        x = node.emit_value("cast", [levels], {"to": "float32"})
        x = node.emit_value("mul", [node.emit_value("sub", [x, parts[1]]), parts[0]])
        weights.append(node.emit_value("transpose", [x], {"perm": (0, 2, 1)}))
    inputs = [node.input(0), *weights, *(node.input(i) for i in range(3, 8))]
    node.emit("dynamic_quantize_lstm", inputs, node.attrs)


@rule("com.microsoft.MatMulNBits")
def _matmul_n_bits(node: Foreign) -> None:
    """Unpack constant weights of 4 or 8 bits in blocks along each column."""
    bits, block = node.integer("bits", 4), node.integer("block_size", 0)
    rows, columns = node.integer("K", 0), node.integer("N", 0)
    packed, scales, zeros = node.known(1), node.known(2), node.known(3)
    if bits not in (4, 8) or packed is None or scales is None or node.input(4) or block < 1:
        raise node.unsupported(f"{bits} bits, or weights that are computed or reordered,")
    if (node.input(3) and zeros is None) or (zeros is not None and zeros.dtype != np.uint8):
        raise node.unsupported("zero points that are computed or floats")
    blocks = -(-rows // block)
    scales = scales.reshape(columns, blocks)
    levels = _unpacked(packed.reshape(columns, -1), bits)[:, :rows]
    middle = np.full((columns, blocks), 1 << (bits - 1), np.uint8)
    if zeros is not None:
        middle = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks]
    inputs = [levels, scales, middle]
    weights = node.emit_value(
        "dequantize_linear",
        [node.constant(each) for each in inputs],
        {"axis": 1, "block_size": block},
    )
    turned = node.emit_value("transpose", [weights], {"perm": (1, 0)})
    bias = node.input(5)
    if not bias:
        node.emit("matmul", [node.input(0), turned])
        return
    node.emit("add", [node.emit_value("matmul", [node.input(0), turned]), bias])


def _unpacked(x: Array, bits: int) -> Array:
    """Return the levels of packed bytes: two a byte, the lower half first, or one."""
    if bits == 8:
        return x
    return np.stack([x & 15, x >> 4], -1).reshape(len(x), -1)
