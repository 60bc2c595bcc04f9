"""Opsets 1 to 6: explicit broadcasting, and attributes that were hints to engines."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule


def _aligned(node: Foreign, first: str, second: str, axis: int) -> str:
    """Add trailing axes of 1 to the second value, so that it lies along the first from `axis`."""
    stems = ("dims", "shape", "rank", "end", "rest", "same", "ones", "wanted", "aligned")
    dims, shape, rank, end, rest, same, ones, wanted, aligned = map(node.value, stems)
    node.emit("shape", [first], outputs=[dims])
    node.emit("shape", [second], outputs=[shape])
    node.emit("shape", [shape], outputs=[rank])
    node.emit("add", [rank, node.constant(np.array([axis]))], outputs=[end])
    node.emit("slice", [dims, end, node.constant(np.array([2**31]))], outputs=[rest])
    node.emit("equal", [rest, rest], outputs=[same])
    node.emit("cast", [same], {"to": "int64"}, [ones])
    node.emit("concat", [shape, ones], {"axis": 0}, [wanted])
    node.emit("reshape", [second, wanted], outputs=[aligned])
    return aligned


@rule("add", "and", "div", "equal", "greater", "less", "mul", "or", "pow", "sub", "xor")
def _binary(node: Foreign) -> None:
    inputs, axis = node.inputs, node.integer("axis", -1)
    if node.opset < 7 and axis >= 0 and node.integer("broadcast", 0):
        inputs = [inputs[0], _aligned(node, inputs[0], inputs[1], axis)]
    node.emit(node.op, inputs, {} if node.opset < 7 else node.attrs)


@rule()
def _gemm(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset < 7:
        attrs.pop("broadcast", None)
    node.emit("gemm", node.inputs, attrs)


@rule()
def _prelu(node: Foreign) -> None:
    """Align the slope, which before opset 7 is one number a channel."""
    inputs = node.inputs
    slope = node.known(1)
    if node.opset < 7 and (slope is None or slope.size > 1):
        inputs = [inputs[0], _aligned(node, inputs[0], inputs[1], 1)]
    node.emit("prelu", inputs)


@rule()
def _reshape(node: Foreign) -> None:
    if node.opset >= 5:
        node.emit("reshape", node.inputs, node.attrs)
    else:
        node.emit_attrs_as_inputs("shape")


@rule()
def _concat(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset < 4:
        attrs.setdefault("axis", 1)
    node.emit("concat", node.inputs, attrs)


@rule()
def _selu(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset < 6:
        attrs = {"alpha": 1.6732, "gamma": 1.0507, **attrs}
    node.emit("selu", node.inputs, attrs)


@rule()
def _tile(node: Foreign) -> None:
    if node.opset < 6:
        raise node.unsupported("opset 5, which tiles one axis,")
    node.emit("tile", node.inputs)
