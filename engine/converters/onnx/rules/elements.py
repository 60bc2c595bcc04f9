"""Operators whose attributes are element types, and those that draw random numbers."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import dtype_number, read_dtype
from palmkit.engine.ir import Attr


@rule("cast", "bit_cast")
def _cast(node: Foreign) -> None:
    if node.opset < 6:
        number = dtype_number(str(node.attrs.get("to")), node.label)
    else:
        number = node.integer("to", 0)
    to = read_dtype(number, node.label)
    node.emit(node.op, node.inputs, {**node.attrs, "to": to})


@rule(
    "bernoulli",
    "eye_like",
    "multinomial",
    "random_normal",
    "random_normal_like",
    "random_uniform",
    "random_uniform_like",
)
def _typed(node: Foreign) -> None:
    attrs = node.attrs
    if "dtype" in attrs:
        attrs["dtype"] = read_dtype(node.integer("dtype", 0), node.label)
    node.emit(node.op, node.inputs, attrs)


@rule()
def _dropout(node: Foreign) -> None:
    """Pass the input through unless training; before opset 12 it never trains."""
    training = node.known(2)
    if node.opset >= 12 and node.input(2) and (training is None or training.any()):
        node.emit("dropout", node.inputs, node.attrs)
        return
    if node.opset < 7 and not node.integer("is_test", 0):
        raise node.unsupported("training, is_test=0,")
    node.alias()
    if len(node.outputs) > 1 and node.outputs[1]:
        shape = node.value("shape")
        node.emit("shape", node.inputs[:1], outputs=[shape])
        # In opsets 7 to 9 the mask has the input's dtype.
        mask = node.outputs[1] if node.opset >= 10 else node.value("mask")
        node.emit("expand", [node.constant(np.array(True)), shape], outputs=[mask])
        if node.opset < 10:
            node.emit("cast_like", [mask, node.input(0)], outputs=node.outputs[1:])


@rule()
def _optional_has_element(node: Foreign) -> None:
    """Write whether there is an input, for optionals that hold tensors."""
    node.scope.constants[node.outputs[0]] = np.array(bool(node.input(0)))


@rule()
def _optional_get_element(node: Foreign) -> None:
    node.alias()


@rule()
def _scatter(node: Foreign) -> None:
    """Convert Scatter, the name of ScatterElements before opset 11."""
    attrs: dict[str, Attr] = {"axis": node.integer("axis", 0)}
    node.emit("scatter_elements", node.inputs, attrs)


@rule()
def _top_k(node: Foreign) -> None:
    attrs = node.attrs
    inputs = list(node.inputs)
    if node.opset < 10:
        inputs.append(node.constant(np.array([attrs.pop("k")], np.int64)))
    node.emit("top_k", inputs, attrs)


@rule()
def _range(node: Foreign) -> None:
    """Count 16-bit floats in float32, whatever stash_type says."""
    node.emit("range", node.inputs)
