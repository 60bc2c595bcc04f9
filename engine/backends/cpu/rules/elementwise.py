"""Ops that treat every element alike: any order in memory will do."""

from typing import TypeAlias

import numpy as np

from palmkit.engine.backends.cpu.registry import functions, rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.ops import find, names
from palmkit.engine.steps.lowering import Lowering, Order, broadcast_strides, collapse, plain
from palmkit.engine.steps.step import StepAttr, View, strides_of

BINARY = {"sum": "add", "mean": "add"} | {
    op: op for op in ("add", "sub", "mul", "div", "max", "min")
}
INTEGERS = ("int8", "uint8", "int32", "int64")
SIGNED = ("int8", "int32", "int64")
COMPARISONS = ("equal", "less", "less_or_equal", "greater", "greater_or_equal")


# The two functions of gelu have a rule of their own.
@rule(*(name for name in functions() if name in names() and name != "gelu"))
def lower_unary(lowering: Lowering, node: Node) -> None:
    """One input, in place where nobody reads it later."""
    x = node.inputs[0]
    if node.op in ("neg", "abs", "sign") and lowering.dtype(x) in SIGNED:
        _elementwise(lowering, node, node.op)
        return
    lowering.need_dtype(x)
    order = lowering.order(x)
    attrs = {name: node.number(name) for name in find(node.op).attributes}
    lowering.step(
        "unary",
        {"x": lowering.get(x, order)},
        {"y": lowering.put(node.outputs[0], order)},
        {"op": node.op, **attrs},
        in_place="x",
    )


@rule("gelu")
def lower_gelu(lowering: Lowering, node: Node) -> None:
    """Two functions, by the attribute."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    order = lowering.order(x)
    op = "gelu_tanh" if node.text("approximate") == "tanh" else "gelu"
    view, y = lowering.get(x, order), lowering.put(node.outputs[0], order)
    lowering.step("unary", {"x": view}, {"y": y}, {"op": op}, in_place="x")


@rule("clip")
def lower_clip(lowering: Lowering, node: Node) -> None:
    """Constant bounds of floats in one step, others as a maximum and a minimum."""
    x, low, high = (*node.inputs, "", "")[:3]
    order = lowering.order(x)
    bounds = [name for name in (low, high) if name]
    if lowering.dtype(x) != "float32" or not all(map(lowering.is_constant, bounds)):
        lowering.need_dtype(x, dtypes=("float32", *INTEGERS))
        view, y = lowering.get(x, order), lowering.put(node.outputs[0], order)
        strides = strides_of(y.dims)
        for op, bound in (("max", low), ("min", high)):
            if bound:
                other = operand_of(lowering, bound, node.outputs[0], order)
                _binary(lowering, op, (view, strides), other, y)
                view = y
        if not bounds:
            lowering.alias(node.outputs[0], view, order)
        return
    lowering.step(
        "unary",
        {"x": lowering.get(x, order)},
        {"y": lowering.put(node.outputs[0], order)},
        {
            "op": "clip",
            "min": float(lowering.constant_of(low, "min").item()) if low else -np.inf,
            "max": float(lowering.constant_of(high, "max").item()) if high else np.inf,
        },
        in_place="x",
    )


# Ops that want C-contiguous rows, whatever order their input comes in.
_BY_ROWS = frozenset({"layer_normalization", "rms_normalization", "matmul", "softmax", "reshape"})


def common_order(lowering: Lowering, node: Node) -> Order:
    """The order of the first of the largest operands that are computed.

    Where another one as large is C-contiguous and a reader wants that, it is C-contiguous too:
    else a residual stream that began in another order would be turned round by every block.
    """
    rank = len(lowering.dims(node.outputs[0]))
    names = [n for n in node.inputs if len(lowering.dims(n)) == rank]
    names = [n for n in names if not lowering.is_constant(n)]
    if not names:
        return plain(rank)
    most = max(lowering.type(name).elements for name in names)
    orders = [lowering.order(n) for n in names if lowering.type(n).elements == most]
    if plain(rank) in orders[1:]:
        readers = lowering.readers.get(node.outputs[0], ())
        if any(reader.op in _BY_ROWS for reader in readers):
            return plain(rank)
    return orders[0]


def operand_of(lowering: Lowering, name: str, output: str, order: Order) -> tuple[View, list[int]]:
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


Operand: TypeAlias = tuple[View, list[int]]


def _binary(lowering: Lowering, op: str, a: Operand, b: Operand, y: View) -> None:
    """One step over two operands, each a view and its strides along y."""
    shape, (a_walk, b_walk) = collapse(y.dims, a[1], b[1])
    views = {"a": a[0], "b": b[0]}
    whole = next((name for name, view in views.items() if view.dims == y.dims), None)
    lowering.step(
        "binary" if y.dtype == "float32" else "elementwise",
        views,
        {"y": y},
        {"op": op, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
        in_place=whole if a[0] is not y else None,
    )


@rule(*BINARY)
def lower_binary(lowering: Lowering, node: Node) -> None:
    """Two operands, broadcast by strides; more are folded from the left."""
    lowering.need_dtype(*node.inputs, dtypes=("float32", "float64", *INTEGERS))
    output = node.outputs[0]
    order = common_order(lowering, node)
    if len(node.inputs) == 1:
        lowering.alias(output, lowering.get(node.inputs[0], order), order)
        return
    first, *rest = (operand_of(lowering, name, output, order) for name in node.inputs)
    y = lowering.put(output, order)
    for operand in rest:
        _binary(lowering, BINARY[node.op], first, operand, y)
        first = (y, strides_of(y.dims))
    if node.op == "mean":
        lowering.need_dtype(output)
        count = lowering.constant(np.full(1, len(node.inputs), np.float32))
        _binary(lowering, "div", first, (count, [0] * len(y.dims)), y)


@rule("multiply_add")
def lower_multiply_add(lowering: Lowering, node: Node) -> None:
    """One step where the first factor and what is added have the result's shape, else two."""
    lowering.need_dtype(*node.inputs)
    output = node.outputs[0]
    order = common_order(lowering, node)
    a, b, z = (operand_of(lowering, name, output, order) for name in node.inputs)
    y = lowering.put(output, order)
    if a[0].dims != y.dims or z[0].dims != y.dims:
        _binary(lowering, "mul", a, b, y)
        _binary(lowering, "add", (y, strides_of(y.dims)), z, y)
        return
    shape, (a_walk, b_walk) = collapse(y.dims, a[1], b[1])
    attrs: dict[str, StepAttr] = {"op": "mul_add", "shape": shape}
    attrs |= {"a_strides": a_walk, "b_strides": b_walk}
    lowering.step("binary", {"a": a[0], "b": b[0], "addend": z[0]}, {"y": y}, attrs, in_place="a")


@rule("pow")
def lower_pow(lowering: Lowering, node: Node) -> None:
    """Small whole powers are products."""
    x, exponent = node.inputs
    lowering.need_dtype(x)
    output = node.outputs[0]
    order = common_order(lowering, node)
    known = lowering.constant_of(exponent, "exponent") if lowering.is_constant(exponent) else None
    a = operand_of(lowering, x, output, order)
    if known is not None and known.size == 1 and known.item() in (2, 3):
        y = lowering.put(output, order)
        if known.item() == 3:
            square = lowering.scratch(y.dtype, y.dims)
            _binary(lowering, "mul", a, a, square)
            _binary(lowering, "mul", (square, strides_of(y.dims)), a, y)
        else:
            _binary(lowering, "mul", a, a, y)
        return
    if known is not None:
        view = lowering.constant(known.astype(np.float32))
        b = (view, broadcast_strides(view.dims, plain(known.ndim), lowering.dims(output), order))
    else:
        lowering.need_dtype(exponent)
        b = operand_of(lowering, exponent, output, order)
    _binary(lowering, "pow", a, b, lowering.put(output, order))


def _elementwise(lowering: Lowering, node: Node, op: str) -> None:
    """One step of the kernel for elements of any dtype."""
    output = node.outputs[0]
    order = common_order(lowering, node)
    operands = [operand_of(lowering, name, output, order) for name in node.inputs]
    y = lowering.put(output, order)
    shape, walks = collapse(y.dims, *(strides for _, strides in operands))
    names = ("a", "b", "c")
    strides = {f"{name}_strides": walk for name, walk in zip(names, walks, strict=False)}
    lowering.step(
        "elementwise",
        {name: view for name, (view, _) in zip(names, operands, strict=False)},
        {"y": y},
        {"op": op, "shape": shape, **strides},
    )


@rule(*COMPARISONS)
def lower_comparison(lowering: Lowering, node: Node) -> None:
    """Bytes that are 0 or 1."""
    logical = ("bool",) if node.op == "equal" else ()
    lowering.need_dtype(*node.inputs, dtypes=("float32", "float64", *INTEGERS, *logical))
    _elementwise(lowering, node, node.op)


@rule("and", "or", "xor", "not")
def lower_logical(lowering: Lowering, node: Node) -> None:
    """Of bools."""
    _elementwise(lowering, node, node.op)


@rule("is_nan")
def lower_is_nan(lowering: Lowering, node: Node) -> None:
    """Of floats."""
    lowering.need_dtype(*node.inputs)
    _elementwise(lowering, node, node.op)


@rule("mod")
def lower_mod(lowering: Lowering, node: Node) -> None:
    """The sign is that of b, or with fmod that of a."""
    lowering.need_dtype(*node.inputs, dtypes=("float32", "float64", *INTEGERS))
    _elementwise(lowering, node, "fmod" if node.integer("fmod") else "mod")


@rule("where")
def lower_where(lowering: Lowering, node: Node) -> None:
    """Of any dtype."""
    _elementwise(lowering, node, "where")


@rule("trilu")
def lower_trilu(lowering: Lowering, node: Node) -> None:
    """A choice between x and 0 by a constant mask."""
    x, k = (*node.inputs, "")[:2]
    rank = len(lowering.dims(x))
    diagonal = int(lowering.constant_of(k, "k").item()) if k else 0
    height, width = lowering.dims(x)[-2:]
    below = np.tri(height, width, diagonal - 1 if node.integer("upper") else diagonal)
    kept = np.asarray(below == (0 if node.integer("upper") else 1))
    view, y = lowering.get(x, plain(rank)), lowering.put(node.outputs[0])
    zero = lowering.constant(np.zeros(1, view.dtype))
    mask = [0] * (rank - 2) + strides_of(kept.shape)
    shape, walks = collapse(y.dims, mask, strides_of(y.dims), [0] * rank)
    strides = dict(zip(("a_strides", "b_strides", "c_strides"), walks, strict=True))
    inputs = {"a": lowering.constant(kept), "b": view, "c": zero}
    lowering.step("elementwise", inputs, {"y": y}, {"op": "where", "shape": shape, **strides})


@rule("prelu")
def lower_prelu(lowering: Lowering, node: Node) -> None:
    """The slope is broadcast to x."""
    x, slope = node.inputs
    lowering.need_dtype(x, slope)
    order = lowering.order(x)
    view, strides = operand_of(lowering, slope, node.outputs[0], order)
    y = lowering.put(node.outputs[0], order)
    shape, (_, walk) = collapse(y.dims, strides_of(y.dims), strides)
    lowering.step(
        "prelu",
        {"x": lowering.get(x, order), "slope": view},
        {"y": y},
        {"shape": shape, "slope_strides": walk},
        in_place="x",
    )


@rule("batch_normalization")
def lower_batch_normalization(lowering: Lowering, node: Node) -> None:
    """A multiplication and an addition for each channel."""
    x, *rest = node.inputs
    lowering.need_dtype(*node.inputs)
    if len([name for name in node.outputs if name]) > 1 or node.integer("training_mode"):
        raise UnsupportedError("training_mode")
    scale, bias, mean, variance = (lowering.constant_of(name, "statistics") for name in rest)
    epsilon = node.number("epsilon")
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
            {"a": source, "b": lowering.constant(value.astype(np.float32))},
            {"y": y},
            {"op": op, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
            in_place="a" if source is not y else None,
        )
        source = y


@rule("identity", "cast")
def lower_identity(lowering: Lowering, node: Node) -> None:
    """The same memory; a cast that changes the dtype is a step, or rounds to half precision."""
    x, y = node.inputs[0], node.outputs[0]
    order = lowering.order(x)
    source, target = (lowering.declared[name].dtype for name in (x, y))
    if (source, target) == ("float64", "float16"):
        raise UnsupportedError("from float64 to float16")
    view = lowering.get(x, order)
    if target == "float16" and source != target:
        view = lowering.cast(view, target)
    if view.dtype == lowering.dtype(y):
        lowering.alias(y, view, order)
    else:
        lowering.step("cast", {"x": view}, {"y": lowering.put(y, order)})
