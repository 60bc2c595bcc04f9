"""Signal processing: differences of older opsets, and dtypes by name."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import read_dtype


@rule()
def _dft(node: Foreign) -> None:
    """Pass on the axis, which before opset 20 is an attribute, 1 if not given."""
    attrs, inputs = node.attrs, node.inputs
    if node.opset < 20:
        axis = node.constant(np.array(attrs.pop("axis", 1), np.int64))
        inputs = [node.input(0), node.input(1), axis]
    node.emit("dft", inputs, attrs)


@rule()
def _mel_weight_matrix(node: Foreign) -> None:
    dtype = read_dtype(node.integer("output_datatype", 1), node.label)
    node.emit("mel_weight_matrix", node.inputs, {"output_datatype": dtype})
