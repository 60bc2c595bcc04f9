"""Ops that treat every element alike: any order in memory will do."""

import numpy as np

from palmkit.engine.backends.cpu.lowering import (
    Lowering,
    Order,
    broadcast_strides,
    collapse,
    plain,
    rule,
    strides_of,
)
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.plan import View

UNARY = {
    "relu": {},
    "sigmoid": {},
    "tanh": {},
    "exp": {},
    "log": {},
    "sqrt": {},
    "neg": {},
    "abs": {},
    "floor": {},
    "ceil": {},
    "round": {},
    "reciprocal": {},
    "hard_swish": {},
    "softplus": {},
    "erf": {},
    "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
    "leaky_relu": {"alpha": 0.01},
    "elu": {"alpha": 1.0},
}
BINARY = {"sum": "add"} | {op: op for op in ("add", "sub", "mul", "div", "pow", "max", "min")}


@rule(*UNARY)
def lower_unary(lowering: Lowering, node: Node) -> None:
    """One input, in place where nobody reads it later."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    order = lowering.order(x)
    attrs = {
        name: float(node.attrs.get(name, default))  # type: ignore[arg-type]
        for name, default in UNARY[node.op].items()
    }
    lowering.step(
        "unary",
        [lowering.get(x, order)],
        [lowering.put(node.outputs[0], order)],
        {"op": node.op, **attrs},
        in_place=0,
    )


@rule("clip")
def lower_clip(lowering: Lowering, node: Node) -> None:
    """Constant bounds only."""
    x, low, high = (*node.inputs, "", "")[:3]
    lowering.need_dtype(x)
    order = lowering.order(x)
    lowering.step(
        "unary",
        [lowering.get(x, order)],
        [lowering.put(node.outputs[0], order)],
        {
            "op": "clip",
            "min": float(lowering.constant_of(low, "min").item()) if low else -np.inf,
            "max": float(lowering.constant_of(high, "max").item()) if high else np.inf,
        },
        in_place=0,
    )


def _common_order(lowering: Lowering, node: Node) -> Order:
    """The order of the first operand that has the output's rank and is computed."""
    rank = len(lowering.dims(node.outputs[0]))
    for name in sorted(node.inputs, key=lambda n: -lowering.type(n).elements):
        if len(lowering.dims(name)) == rank and not lowering.is_constant(name):
            return lowering.order(name)
    return plain(rank)


def _operand(lowering: Lowering, name: str, output: str, order: Order) -> tuple[View, list[int]]:
    """The operand, in the output's order where it has its rank, and its strides along it."""
    shape = lowering.dims(output)
    dims = lowering.dims(name)
    if len(dims) == len(shape):
        own: Order = order
    elif lowering.is_constant(name):
        extra = len(shape) - len(dims)
        own = tuple(axis - extra for axis in order if axis >= extra)
    else:
        own = lowering.order(name)
    view = lowering.get(name, own)
    return view, broadcast_strides(view.dims, own, shape, order)


@rule(*BINARY)
def lower_binary(lowering: Lowering, node: Node) -> None:
    """Two operands, broadcast by strides; more are folded from the left."""
    lowering.need_dtype(*node.inputs)
    output = node.outputs[0]
    order = _common_order(lowering, node)
    if len(node.inputs) == 1:
        lowering.alias(output, lowering.get(node.inputs[0], order), order)
        return
    y = lowering.put(output, order)
    a, a_strides = _operand(lowering, node.inputs[0], output, order)
    for name in node.inputs[1:]:
        b, b_strides = _operand(lowering, name, output, order)
        shape, (a_walk, b_walk) = collapse(y.dims, a_strides, b_strides)
        whole = [view.dims == y.dims for view in (a, b)]
        lowering.step(
            "binary",
            [a, b],
            [y],
            {"op": BINARY[node.op], "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
            in_place=whole.index(True) if any(whole) and a is not y else None,
        )
        a, a_strides = y, strides_of(y.dims)


@rule("prelu")
def lower_prelu(lowering: Lowering, node: Node) -> None:
    """The slope is broadcast to x."""
    x, slope = node.inputs
    lowering.need_dtype(x, slope)
    order = lowering.order(x)
    view, strides = _operand(lowering, slope, node.outputs[0], order)
    y = lowering.put(node.outputs[0], order)
    shape, (_, walk) = collapse(y.dims, strides_of(y.dims), strides)
    lowering.step(
        "prelu",
        [lowering.get(x, order), view],
        [y],
        {"shape": shape, "slope_strides": walk},
        in_place=0,
    )


@rule("batch_normalization")
def lower_batch_normalization(lowering: Lowering, node: Node) -> None:
    """A multiplication and an addition for each channel."""
    x, *rest = node.inputs
    lowering.need_dtype(*node.inputs)
    if len([name for name in node.outputs if name]) > 1 or node.attrs.get("training_mode"):
        raise UnsupportedError("training_mode")
    scale, bias, mean, variance = (lowering.constant_of(name, "statistics") for name in rest)
    epsilon = float(node.attrs.get("epsilon", 1e-5))  # type: ignore[arg-type]
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    offset = bias - mean * factor
    order = lowering.order(x)
    y = lowering.put(node.outputs[0], order)
    channel_strides = [int(axis == 1) for axis in order]
    source = lowering.get(x, order)
    for op, value in (("mul", factor), ("add", offset)):
        shape, (a_walk, b_walk) = collapse(y.dims, strides_of(y.dims), channel_strides)
        lowering.step(
            "binary",
            [source, lowering.constant(value.astype(np.float32))],
            [y],
            {"op": op, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
            in_place=0 if source is not y else None,
        )
        source = y


@rule("identity", "cast", "dropout")
def lower_identity(lowering: Lowering, node: Node) -> None:
    """The same memory; a cast that changes the dtype is a step."""
    x, y = node.inputs[0], node.outputs[0]
    order = lowering.order(x)
    if lowering.type(x).dtype == lowering.type(y).dtype:
        lowering.alias(y, lowering.get(x, order), order)
    else:
        lowering.step("cast", [lowering.get(x, order)], [lowering.put(y, order)])
