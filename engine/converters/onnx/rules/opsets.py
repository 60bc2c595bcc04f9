"""Operators that differ in older opsets: attributes that became inputs, other defaults."""

from __future__ import annotations

import numpy as np

from palmkit.engine.converters.onnx.node import Foreign
from palmkit.engine.converters.onnx.rules import rule
from palmkit.engine.converters.onnx.tensors import read_array
from palmkit.engine.ir import Attr


@rule()
def _constant(node: Foreign) -> None:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32)):
        if name in node.protos:
            node.scope.constants[node.outputs[0]] = np.array(node.attrs[name], dtype)
            return
    for name in ("value_int", "value_ints"):
        if name in node.protos:
            node.scope.constants[node.outputs[0]] = np.array(node.attrs[name], np.int64)
            return
    if "value" not in node.protos:
        raise node.unsupported(f"attribute {', '.join(node.protos)}")
    node.scope.constants[node.outputs[0]] = read_array(node.protos["value"].t)


@rule()
def _constant_of_shape(node: Foreign) -> None:
    value = np.zeros(1, np.float32)
    if "value" in node.protos:
        value = read_array(node.protos["value"].t)
    node.emit("expand", [node.constant(value.reshape(())), node.input(0)])


@rule()
def _identity(node: Foreign) -> None:
    node.alias()


@rule(
    "reduce_l1",
    "reduce_l2",
    "reduce_log_sum",
    "reduce_log_sum_exp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "reduce_sum_square",
)
def _reduce(node: Foreign) -> None:
    if node.opset >= (13 if node.op == "reduce_sum" else 18):
        node.emit(node.op, node.inputs, node.attrs)
    else:
        node.emit_attrs_as_inputs("axes")


@rule("squeeze", "unsqueeze")
def _squeeze(node: Foreign) -> None:
    if node.opset >= 13:
        node.emit(node.op, node.inputs, node.attrs)
    else:
        node.emit_attrs_as_inputs("axes")


@rule()
def _slice(node: Foreign) -> None:
    if node.opset >= 10:
        node.emit("slice", node.inputs)
    else:
        node.emit_attrs_as_inputs("starts", "ends", "axes")


@rule()
def _split(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset >= 13:
        if not node.input(1):
            attrs.setdefault("num_outputs", len(node.outputs))
        node.emit("split", node.inputs, attrs)
    elif "split" in attrs:
        node.emit_attrs_as_inputs("split")
    else:
        node.emit("split", node.inputs, {**attrs, "num_outputs": len(node.outputs)})


def _number(node: Foreign, value: Attr) -> str:
    """Add a constant of the first input's dtype from an attribute that is a float."""
    number, typed = node.constant(np.array(value, np.float32)), node.value("typed")
    node.emit("cast_like", [number, node.input(0)], outputs=[typed])
    return typed


@rule()
def _pad(node: Foreign) -> None:
    attrs = node.attrs
    if node.opset >= 11:
        node.emit("pad", node.inputs, attrs)
        return
    pads = node.constant(np.array(attrs.pop("pads", attrs.pop("paddings", ())), np.int64))
    node.emit("pad", [node.input(0), pads, _number(node, attrs.pop("value", 0.0))], attrs)


@rule()
def _clip(node: Foreign) -> None:
    if node.opset >= 11:
        node.emit("clip", node.inputs, node.attrs)
        return
    attrs = node.attrs
    bounds = [_number(node, attrs[name]) if name in attrs else "" for name in ("min", "max")]
    node.emit("clip", [node.input(0), *bounds])


@rule("softmax", "log_softmax", "hardmax")
def _softmax(node: Foreign) -> None:
    """Flatten, apply softmax and reshape back: before opset 13 all axes from `axis` on are one."""
    axis = node.integer("axis", -1 if node.opset >= 13 else 1)
    if node.opset >= 13 or axis == -1:
        node.emit(node.op, node.inputs, {"axis": axis})
        return
    shape, matrix, result = node.value("shape"), node.value("matrix"), node.value("softmax")
    node.emit("shape", node.inputs, outputs=[shape])
    node.emit("flatten", node.inputs, {"axis": axis}, [matrix])
    node.emit(node.op, [matrix], {"axis": -1}, [result])
    node.emit("reshape", [result, shape])


@rule()
def _upsample(node: Foreign) -> None:
    scales = node.input(1)
    attrs = node.attrs
    if node.opset < 7:
        wanted = np.array([1, 1, attrs["height_scale"], attrs["width_scale"]], np.float32)
        scales = node.constant(wanted)
    elif node.opset < 9:
        scales = node.constant(np.array(attrs["scales"], np.float32))
    _resize_from_the_corner(node, scales, "floor")


@rule()
def _resize(node: Foreign) -> None:
    if node.opset < 11:
        scales = node.known(1)
        if scales is None or scales.min(initial=1) >= 1:
            _resize_from_the_corner(node, node.input(1), "floor")
        elif scales.max(initial=0) <= 1:
            _resize_from_the_corner(node, node.input(1), "ceil")
        else:
            # Shrinking rounds up and growing rounds down, so the two are done one after the other.
            shrunk = [node.input(0), "", node.constant(np.minimum(scales, 1))]
            x = node.emit_value("resize", shrunk, _from_the_corner(node, "ceil"))
            grown = [x, "", node.constant(np.maximum(scales, 1))]
            node.emit("resize", grown, _from_the_corner(node, "floor"))
        return
    inputs = [
        "" if name in node.scope.constants and not node.scope.constants[name].size else name
        for name in node.inputs
    ]
    attrs = node.attrs
    if attrs.get("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        if attrs.get("mode", "nearest") != "nearest" or attrs.get("nearest_mode") != "floor":
            raise node.unsupported("tf_half_pixel_for_nn without nearest_mode=floor")
        # floor((y + 1/2) / scale) is half_pixel, rounded to the nearest, ties up.
        attrs.update(coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")
    node.emit("resize", inputs, attrs)


def _resize_from_the_corner(node: Foreign, scales: str, nearest_mode: str) -> None:
    node.emit("resize", [node.input(0), "", scales], _from_the_corner(node, nearest_mode))


def _from_the_corner(node: Foreign, nearest_mode: str) -> dict[str, Attr]:
    """Return the attributes of Resize as it was before opset 11."""
    return {
        "mode": node.attrs.get("mode", "nearest"),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": nearest_mode,
    }
