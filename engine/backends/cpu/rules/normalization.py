"""Normalizations: of the last axes, of channels, of what lies near."""

from math import prod

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.steps.lowering import Lowering, channels_last, collapse, plain
from palmkit.engine.steps.step import StepAttr, View, strides_of


@rule("layer_normalization", "rms_normalization")
def lower_layer_normalization(lowering: Lowering, node: Node) -> None:
    """One row an item; scale and bias are constants."""
    x, scale, bias = (*node.inputs, "")[:3]
    lowering.need_dtype(x, scale, bias)
    if any(node.outputs[1:]):
        raise UnsupportedError("outputs Mean and InvStdDev")
    if lowering.declared[x].dtype != lowering.declared[scale].dtype:
        raise UnsupportedError("x and scale of two dtypes")
    dims = lowering.dims(x)
    axis = node.integer("axis") % len(dims)
    size = prod(dims[axis:])
    if not size:
        raise UnsupportedError("empty rows")

    def row(name: str) -> View | None:
        if not name:
            return None
        value = lowering.constant_of(name, "scale or bias")
        if value.ndim > len(dims) - axis and prod(value.shape[: axis - len(dims)]) != 1:
            raise UnsupportedError("a scale for each row")
        last = value.reshape(value.shape[max(0, value.ndim - len(dims) + axis) :])
        return lowering.constant(np.broadcast_to(last, dims[axis:]).reshape(-1))

    lowering.step(
        "normalize",
        {"x": lowering.get(x, plain(len(dims))), "scale": row(scale), "bias": row(bias)},
        {"y": lowering.put(node.outputs[0])},
        {
            "items": prod(dims[:axis]),
            "rows": 1,
            "groups": 1,
            "n": size,
            "epsilon": node.number("epsilon"),
            "centre": int(node.op == "layer_normalization"),
        },
        in_place="x",
    )


@rule("instance_normalization", "group_normalization")
def lower_group_normalization(lowering: Lowering, node: Node) -> None:
    """Groups of channels, side by side or, in a C-contiguous array, one after another."""
    x, scale, bias = node.inputs
    lowering.need_dtype(x, scale, bias)
    dims = lowering.dims(x)
    items, channels, space = dims[0], dims[1], prod(dims[2:])
    if not items * channels * space:
        raise UnsupportedError("an empty image")
    is_group = node.op == "group_normalization"
    groups = node.integer("num_groups") if is_group else channels
    values = [lowering.constant_of(name, "scale or bias") for name in (scale, bias)]
    epsilon = node.number("epsilon")
    order = lowering.order(x)
    if order == channels_last(len(dims)) and order != plain(len(dims)):
        lowering.step(
            "normalize",
            {
                "x": lowering.get(x, order),
                "scale": lowering.constant(values[0]),
                "bias": lowering.constant(values[1]),
            },
            {"y": lowering.put(node.outputs[0], order)},
            {
                "items": items,
                "rows": space,
                "groups": groups,
                "n": channels // groups,
                "epsilon": epsilon,
            },
            in_place="x",
        )
        return
    size = channels // groups * space
    view, y = lowering.get(x, plain(len(dims))), lowering.put(node.outputs[0])
    attrs: dict[str, StepAttr] = {"items": items * groups, "rows": 1, "groups": 1, "n": size}
    attrs["epsilon"] = epsilon
    lowering.step("normalize", {"x": view}, {"y": y}, attrs, in_place="x")
    for op, value, nothing in (("mul", values[0], 1), ("add", values[1], 0)):
        if (value != nothing).any():
            _by_channel(lowering, op, y, value)


def _by_channel(lowering: Lowering, op: str, y: View, value: Array) -> None:
    """y = y op value[c], for y[n, c, ...] in place."""
    by_channel = [int(axis == 1) for axis in range(len(y.dims))]
    shape, (a_walk, b_walk) = collapse(y.dims, strides_of(y.dims), by_channel)
    lowering.step(
        "binary",
        {"a": y, "b": lowering.constant(value)},
        {"y": y},
        {"op": op, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
    )


@rule("lrn")
def lower_lrn(lowering: Lowering, node: Node) -> None:
    """Over neighbouring channels, which lie side by side."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    dims = lowering.dims(x)
    if 0 in dims:
        raise UnsupportedError("an empty image")
    order = channels_last(len(dims))
    lowering.step(
        "local_response",
        {"x": lowering.get(x, order)},
        {"y": lowering.put(node.outputs[0], order)},
        {
            "channels": dims[1],
            "size": node.integer("size"),
            "alpha": node.number("alpha"),
            "beta": node.number("beta"),
            "bias": node.number("bias"),
        },
    )
