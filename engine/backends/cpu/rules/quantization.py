"""Rounding to integers and back; where nobody reads the integers, in one step."""

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.steps.lowering import Lowering, Order, axis_attrs
from palmkit.engine.steps.step import StepAttr, View

ROUNDED = ("int8", "uint8", "int16", "uint16")


def _parameters(lowering: Lowering, node: Node) -> dict[str, View]:
    """Scale and zero point, constants."""
    _, scale, zero = (*node.inputs, "")[:3]
    lowering.need_dtype(scale)
    if node.integer("block_size"):
        raise UnsupportedError("block_size")
    views = {"scale": lowering.constant(lowering.constant_of(scale, "scale").reshape(-1))}
    if zero:
        value = lowering.constant_of(zero, "zero point").reshape(-1)
        views["zero_point"] = lowering.constant(value)
    return views


def _layout(lowering: Lowering, node: Node, view: View, order: Order) -> dict[str, StepAttr]:
    if lowering.type(node.inputs[1]).elements == 1:
        return {"outer": 1, "axis": 1, "inner": lowering.type(node.inputs[0]).elements}
    axis = node.integer("axis") % len(order)
    return axis_attrs(view.dims, order.index(axis))


def _undoes(lowering: Lowering, node: Node, reader: Node) -> bool:
    """Does the reader take back what the node did?"""
    if reader.op != "dequantize_linear" or len(reader.inputs) != len(node.inputs):
        return False
    parameters = zip(node.inputs[1:], reader.inputs[1:], strict=True)
    return (
        reader.inputs[0] == node.outputs[0]
        and lowering.dtype(reader.outputs[0]) == "float32"
        and node.integer("axis") == reader.integer("axis")
        and all(
            np.array_equal(lowering.constant_of(a, "scale"), lowering.constant_of(b, "scale"))
            for a, b in parameters
        )
    )


@rule("quantize_linear")
def lower_quantize(lowering: Lowering, node: Node) -> None:
    """Nothing yet where every reader dequantizes: see lower_dequantize."""
    x, y = node.inputs[0], node.outputs[0]
    lowering.need_dtype(x)
    lowering.need_dtype(y, dtypes=ROUNDED)
    if node.has("precision"):
        raise UnsupportedError("precision")
    if "float16" in (lowering.declared[name].dtype for name in node.inputs if name):
        raise UnsupportedError("levels of half precision")
    order = lowering.order(x)
    view, parameters = lowering.get(x, order), _parameters(lowering, node)
    readers = lowering.readers.get(y, [])
    if (
        y not in lowering.graph.outputs
        and readers
        and all(_undoes(lowering, node, reader) for reader in readers)
    ):
        lowering.alias(y, view, order)
        return
    attrs = {**_layout(lowering, node, view, order), "op": "quantize"}
    lowering.step("quantize", {"x": view, **parameters}, {"y": lowering.put(y, order)}, attrs)


@rule("dequantize_linear")
def lower_dequantize(lowering: Lowering, node: Node) -> None:
    """Turn integers into floats, or keep the floats that lower_quantize left as they were."""
    x, y = node.inputs[0], node.outputs[0]
    dtype = lowering.dtype(x)
    lowering.need_dtype(x, dtypes=(*ROUNDED, "int32"))
    lowering.need_dtype(y)
    order = lowering.order(x)
    view = lowering.get(x, order)
    attrs: dict[str, StepAttr] = {**_layout(lowering, node, view, order), "op": "dequantize"}
    if view.dtype == "float32":
        attrs |= {"op": "round_trip", "dtype": dtype}
    inputs = {"x": view, **_parameters(lowering, node)}
    lowering.step("quantize", inputs, {"y": lowering.put(y, order)}, attrs)
