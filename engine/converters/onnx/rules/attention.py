"""Attention and related operators."""

from __future__ import annotations

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import read_dtype


@rule()
def _attention(node: Foreign) -> None:
    attrs = node.attrs
    if attrs.pop("softmax_precision", None):
        attrs["softmax_precision"] = read_dtype(node.integer("softmax_precision", 1), node.label)
    node.emit("attention", node.inputs, attrs)
