"""Operators that read between elements: differences of older opsets."""

from __future__ import annotations

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule


@rule()
def _grid_sample(node: Foreign) -> None:
    attrs = node.attrs
    old = {"bilinear": "linear", "bicubic": "cubic"}
    mode = str(attrs.get("mode", "linear"))
    attrs["mode"] = old.get(mode, mode) if node.opset < 20 else mode
    node.emit("grid_sample", node.inputs, attrs)


@rule()
def _roi_align(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset < 16:
        attrs["coordinate_transformation_mode"] = "output_half_pixel"
    node.emit("roi_align", node.inputs, attrs)
