"""Quantized operators, as float ones between dequantize_linear and quantize_linear."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import read_dtype
from palmkit.engine.ir import Attr


@rule("quantize_linear", "com.microsoft.QuantizeLinear")
def _quantize_linear(node: Foreign) -> None:
    node.emit("quantize_linear", node.inputs, _with_dtypes(node))


@rule("dequantize_linear", "com.microsoft.DequantizeLinear")
def _dequantize_linear(node: Foreign) -> None:
    node.emit("dequantize_linear", node.inputs, _with_dtypes(node))


def _with_dtypes(node: Foreign) -> dict[str, Attr]:
    """Return the attributes, with element types by name; number 0 is none."""
    attrs = node.attrs
    for name in ("output_dtype", "precision"):
        number = node.integer(name, 0)
        attrs.pop(name, None)
        if number:
            attrs[name] = read_dtype(number, node.label)
    return attrs


def dequantized(node: Foreign, first: int, axis: int = 1) -> str:
    """Write the inputs from `first` on (levels, scale, zero point) as float32."""
    scale = node.known(first + 1)
    if scale is not None and scale.ndim > 1:
        return _broadcast(node, first)
    inputs = [node.input(first + i) for i in range(3)]
    attrs: dict[str, Attr] = {"axis": axis}
    if scale is None or scale.dtype != np.float32:
        attrs["output_dtype"] = "float32"
    return node.emit_value("dequantize_linear", inputs, attrs)


def _broadcast(node: Foreign, first: int) -> str:
    """Write the same for a scale of as many axes as the levels have."""
    x, scale, zero = (
        node.emit_value("cast", [node.input(first + i)], {"to": "float32"}) for i in range(3)
    )
    return node.emit_value("mul", [node.emit_value("sub", [x, zero]), scale])


def emit_quantized(node: Foreign, x: str, first: int) -> None:
    """Quantize x, float32, as the node's output; inputs from `first`: scale, zero point."""
    scale = node.known(first)
    is_float32 = scale is not None and scale.dtype == np.float32
    attrs: dict[str, Attr] = {} if is_float32 else {"precision": "float32"}
    node.emit("quantize_linear", [x, node.input(first), node.input(first + 1)], attrs)


def dequantized_bias(node: Foreign, place: int, *scales: int) -> str:
    """Write a bias's int32 levels, scaled by the product of these inputs' scales, as float32."""
    wide = [node.emit_value("cast", [node.input(i)], {"to": "float32"}) for i in scales]
    scale = node.emit_value("mul", wide)
    return node.emit_value("dequantize_linear", [node.input(place), scale], {"axis": 0})


@rule("qlinear_conv", "com.microsoft.QLinearConv")
def _qlinear_conv(node: Foreign) -> None:
    attrs = node.attrs
    if attrs.pop("channels_last", 0):
        raise node.unsupported("channels_last")
    inputs = [dequantized(node, 0), dequantized(node, 3, axis=0)]
    if node.input(8):
        inputs.append(dequantized_bias(node, 8, 1, 4))
    emit_quantized(node, node.emit_value("conv", inputs, attrs), 6)


@rule()
def _qlinear_matmul(node: Foreign) -> None:
    """Write a quantized matmul; a may have one scale a row, b one a column."""
    operands = [dequantized(node, 0, axis=-2), dequantized(node, 3, axis=-1)]
    emit_quantized(node, node.emit_value("matmul", operands), 6)
