"""Ops of bytes in and out: channels-last pictures, sums in int32."""

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.backends.cpu.rules.convolution import (
    image_view,
    need_image,
    weight_view,
    window_attrs,
)
from palmkit.engine.backends.cpu.rules.elementwise import common_order, operand_of
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops.quantization import MOST_SCALE
from palmkit.engine.steps.lowering import Lowering, axis_attrs, channels_last, collapse
from palmkit.engine.steps.step import StepAttr, View

# Attributes that the steps have as well; they leave out the "_point" of zero points.
_LEVELS = (
    "scale", "x_zero_point", "y_zero_point", "low", "high", "a_scale", "a_zero_point", "b_scale",
    "b_zero_point", "z_scale", "z_zero_point", "inner_scale", "inner_zero_point", "inner_low",
    "inner_high", "sum_scale", "sum_zero_point", "sum_low", "sum_high",
)  # fmt: skip


def _need_scales(what: str, *scales: float) -> None:
    """The kernels refuse larger ones: a float could overflow."""
    if not all(abs(scale) <= MOST_SCALE for scale in scales):
        raise UnsupportedError(f"{what}: scales above {MOST_SCALE:g}")


def _levels(node: Node) -> dict[str, StepAttr]:
    found: dict[str, StepAttr] = {}
    for name in _LEVELS:
        if name not in node.attrs:
            continue
        if name.endswith("scale"):
            found[name] = node.number(name)
            _need_scales(name, node.number(name))
        else:
            found[name.removesuffix("_point")] = node.integer(name)
    return found


@rule("quantized_conv")
def lower_quantized_conv(lowering: Lowering, node: Node) -> None:
    """x, z and y channels-last; w as [m, kh, kw, c / group]."""
    x, w, scale, bias, z, slope = (*node.inputs, "", "", "")[:6]
    rank = need_image(lowering, x)
    order = channels_last(rank)

    def numbers(name: str) -> View | None:
        return lowering.constant(lowering.constant_of(name, "a number")) if name else None

    of_channels = {"scale": numbers(scale), "bias": numbers(bias), "slope": numbers(slope)}
    _need_scales("scale", *lowering.constant_of(scale, "scale").reshape(-1).tolist())
    if slope:
        _need_scales("slope", *lowering.constant_of(slope, "slope").reshape(-1).tolist())
    levels = _levels(node)
    if lowering.dtype(node.outputs[0]) == "float32":
        levels = {"x_zero": levels["x_zero"]}
    lowering.step(
        "conv_int8",
        {
            "image": image_view(lowering.get(x, order), rank),
            "weights": weight_view(lowering, w, rank),
            "residual": image_view(lowering.get(z, order), rank) if z else None,
            **of_channels,
        },
        {"y": image_view(lowering.put(node.outputs[0], order), rank)},
        {
            **window_attrs(node, lowering.dims(x)[2:], lowering.dims(w)[2:]),
            "group": node.integer("group"),
            **levels,
        },
    )


@rule("quantized_add", "quantized_mul")
def lower_quantized_binary(lowering: Lowering, node: Node) -> None:
    """Two operands, broadcast by strides."""
    output = node.outputs[0]
    order = common_order(lowering, node)
    a, b = (operand_of(lowering, name, output, order) for name in node.inputs)
    y = lowering.put(output, order)
    shape, (a_walk, b_walk) = collapse(y.dims, a[1], b[1])
    attrs = {**_levels(node), "op": node.op.removeprefix("quantized_")}
    if node.op == "quantized_mul":
        attrs["a_scale"] = attrs.pop("scale")
    views = {"a": a[0], "b": b[0]}
    whole = next((name for name, view in views.items() if view.dims == y.dims), None)
    lowering.step(
        "binary_int8",
        views,
        {"y": y},
        {**attrs, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
        in_place=whole,
    )


@rule("quantized_average_pool")
def lower_quantized_average_pool(lowering: Lowering, node: Node) -> None:
    """Channels-last windows."""
    x = node.inputs[0]
    rank = need_image(lowering, x)
    order = channels_last(rank)
    kernel = [*node.integers("kernel_shape")]
    lowering.step(
        "pool_int8",
        {"image": image_view(lowering.get(x, order), rank)},
        {"y": image_view(lowering.put(node.outputs[0], order), rank)},
        {
            "mode": "average",
            "kernel": kernel if rank == 4 else [1, *kernel],
            **window_attrs(node, lowering.dims(x)[2:], kernel),
            "count_include_pad": node.integer("count_include_pad"),
            **_levels(node),
        },
    )


@rule("quantized_resize")
def lower_quantized_resize(lowering: Lowering, node: Node) -> None:
    """One step, its tables constants."""
    order = channels_last(4)
    names = ("rows", "row_weights", "columns", "column_weights")
    tables = {
        name: lowering.constant(lowering.constant_of(table, "a table"))
        for name, table in zip(names, node.inputs[1:], strict=True)
    }
    inputs = {"image": lowering.get(node.inputs[0], order), **tables}
    lowering.step("resize_int8", inputs, {"y": lowering.put(node.outputs[0], order)}, _levels(node))


@rule("lookup")
def lower_lookup(lowering: Lowering, node: Node) -> None:
    """One table for all, or one for each index along axis 1."""
    x, y = node.inputs[0], node.outputs[0]
    table = lowering.constant_of(node.inputs[1], "table")
    order = lowering.order(x)
    view = lowering.get(x, order)
    attrs: dict[str, StepAttr] = {"outer": 1, "axis": 1, "inner": lowering.type(x).elements}
    if table.ndim > 1:
        attrs = axis_attrs(view.dims, order.index(1))
    inputs = {"x": view, "table": lowering.constant(np.ascontiguousarray(table))}
    lowering.step("lookup", inputs, {"y": lowering.put(y, order)}, attrs, in_place="x")
