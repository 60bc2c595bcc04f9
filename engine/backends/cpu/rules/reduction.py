"""Ops that gather many elements into one: reductions, softmax, matrix products."""

from math import prod

import numpy as np

from palmkit.engine.backends.cpu.registry import rule
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.steps.lowering import (
    Lowering,
    Order,
    axis_attrs,
    broadcast_strides,
    collapse,
    plain,
    reduced_order,
)
from palmkit.engine.steps.step import StepAttr, View, strides_of

REDUCTIONS = {
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_l2": "l2",
}
INTEGERS = ("int8", "uint8", "int32", "int64")


def _reduce(
    lowering: Lowering,
    view: View,
    order: Order,
    y: str,
    axes: set[int],
    op: str,
    keepdims: bool,
) -> None:
    strides = strides_of(view.dims)
    kept = [i for i, axis in enumerate(order) if axis not in axes]
    reduced = [i for i, axis in enumerate(order) if axis in axes]
    if any(view.dims[i] == 0 for i in reduced):
        raise UnsupportedError("an empty axis")
    lowering.step(
        "reduce" if view.dtype == "float32" else "reduce_integers",
        {"x": view},
        {"y": lowering.put(y, reduced_order(order, axes, keepdims))},
        {
            "op": op,
            "out_shape": [view.dims[i] for i in kept],
            "out_strides": [strides[i] for i in kept],
            "red_shape": [view.dims[i] for i in reduced],
            "red_strides": [strides[i] for i in reduced],
        },
    )


@rule(*REDUCTIONS)
def lower_reduce(lowering: Lowering, node: Node) -> None:
    """Reduce over any axes, in whatever order the input lies."""
    x = node.inputs[0]
    whole = node.op in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")
    lowering.need_dtype(x, dtypes=("float32", *INTEGERS) if whole else ("float32",))
    order = lowering.order(x)
    axes_of_x, keepdims = _reduced_axes(lowering, node), bool(node.integer("keepdims"))
    op, view = REDUCTIONS[node.op], lowering.get(x, order)
    _reduce(lowering, view, order, node.outputs[0], axes_of_x, op, keepdims)


def _reduced_axes(lowering: Lowering, node: Node) -> set[int]:
    x, axes = (*node.inputs, "")[:2]
    rank = len(lowering.dims(x))
    which = (
        {int(axis) % rank for axis in lowering.constant_of(axes, "axes").reshape(-1)}
        if axes
        else set[int]()
    )
    if not which and not node.integer("noop_with_empty_axes"):
        which = set(range(rank))
    return which


@rule("reduce_l1", "reduce_sum_square")
def lower_reduce_of(lowering: Lowering, node: Node) -> None:
    """A sum, and what comes before it."""
    x, y = node.inputs[0], node.outputs[0]
    lowering.need_dtype(x)
    order = lowering.order(x)
    view = lowering.get(x, order)
    part = lowering.scratch(view.dtype, view.dims)
    if node.op == "reduce_l1":
        lowering.step("unary", {"x": view}, {"y": part}, {"op": "abs"})
    else:
        lowering.step(
            "binary", {"a": view, "b": view}, {"y": part}, {"op": "mul", "shape": list(view.dims)}
        )
    keepdims = bool(node.integer("keepdims"))
    _reduce(lowering, part, order, y, _reduced_axes(lowering, node), "sum", keepdims)


@rule("global_average_pool", "global_max_pool")
def lower_global_pool(lowering: Lowering, node: Node) -> None:
    """A reduction over space."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    op = "mean" if node.op == "global_average_pool" else "max"
    order, space = lowering.order(x), set(range(2, len(lowering.dims(x))))
    _reduce(lowering, lowering.get(x, order), order, node.outputs[0], space, op, True)


@rule("softmax", "log_softmax")
def lower_softmax(lowering: Lowering, node: Node) -> None:
    """Along one axis, wherever it lies in memory."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    rank = len(lowering.dims(x))
    order = lowering.order(x)
    axis = order.index(node.integer("axis") % rank)
    view = lowering.get(x, order)
    lowering.step(
        "softmax",
        {"x": view},
        {"y": lowering.put(node.outputs[0], order)},
        {**axis_attrs(view.dims, axis), "log": int(node.op == "log_softmax")},
    )


def multiply(
    lowering: Lowering, a: View, b: View, bias: View | None, y: View, trans_b: bool = False
) -> None:
    """y[..., m, n] = a[..., m, k] b[..., k, n]; leading dims are broadcast."""
    m, k = a.dims[-2:]
    if k == 0 or 0 in y.dims:
        lowering.step("fill", {}, {"y": y}, {"value": 0.0})
        return
    n = y.dims[-1]
    batch = y.dims[:-2]
    if batch and prod(b.dims[:-2]) == 1 and prod(a.dims[:-2]) == prod(batch):
        m, batch = m * prod(batch), ()
    if lowering.narrow and not batch and len(b.dims) == 2 and b.buffer.place == "constant":
        weights = lowering.constants[b.buffer.index].reshape(b.dims)
        filters = lowering.constant((weights if trans_b else weights.T).reshape(n, 1, 1, k))
        image = View(a.buffer, a.dtype, (1, 1, m, k))
        result = View(y.buffer, y.dtype, (1, 1, m, n))
        inputs = {"image": image, "weights": filters, "bias": bias}
        lowering.step("conv", inputs, {"y": result}, {"precision": lowering.narrow})
        return
    walks: list[list[int]] = []
    for view in (a, b):
        lead = view.dims[:-2]
        strides = strides_of(view.dims)[: len(lead)]
        walk = [s if d > 1 else 0 for s, d in zip(strides, lead, strict=True)]
        walks.append([0] * (len(batch) - len(lead)) + walk if batch else [])
    lowering.step(
        "matmul",
        {"a": a, "b": b, "bias": bias},
        {"y": y},
        {
            "m": m,
            "k": k,
            "n": n,
            "batch": list(batch),
            "a_strides": walks[0],
            "b_strides": walks[1],
            "trans_b": int(trans_b),
            "activation": "",
            "activation_params": [],
        },
    )


@rule("matmul")
def lower_matmul(lowering: Lowering, node: Node) -> None:
    """numpy's matmul: vectors become matrices of one row or column."""
    lowering.need_dtype(*node.inputs)
    a, b = (lowering.get(name, plain(len(lowering.dims(name)))) for name in node.inputs)
    if len(a.dims) == 1:
        a = View(a.buffer, a.dtype, (1, *a.dims))
    column = len(b.dims) == 1
    if column:
        b = View(b.buffer, b.dtype, (*b.dims, 1))
    y = lowering.put(node.outputs[0])
    lead = np.broadcast_shapes(a.dims[:-2], b.dims[:-2])
    matrix = View(y.buffer, y.dtype, (*lead, a.dims[-2], b.dims[-1]))
    multiply(lowering, a, b, None, matrix)


@rule("gemm")
def lower_gemm(lowering: Lowering, node: Node) -> None:
    """alpha and the transposition of b are folded into b, beta into a constant c."""
    lowering.need_dtype(*node.inputs)
    a, b, c = (*node.inputs, "")[:3]
    alpha = node.number("alpha")
    beta = node.number("beta")
    left = lowering.get(a, (1, 0) if node.integer("transA") else (0, 1))
    trans_b = bool(node.integer("transB"))
    y = lowering.put(node.outputs[0])
    if lowering.is_constant(b):
        weights = lowering.constant_of(b, "b")
        right = lowering.constant(weights if alpha == 1 else weights * np.float32(alpha))
        alpha = 1.0
    else:
        right = lowering.get(b, plain(2))
    row: Array | None = None
    value: Array | None = None
    if c and lowering.is_constant(c):
        value = np.asarray(lowering.constant_of(c, "c") * np.float32(beta))
        is_row = value.ndim < 2 or not (value != value[:1]).any()
        if alpha == 1 and 0 not in (*left.dims, *y.dims) and is_row:
            row = np.broadcast_to(value if value.ndim < 2 else value[0], y.dims[1:])
    multiply(lowering, left, right, None if row is None else lowering.constant(row), y, trans_b)
    if alpha != 1:
        combine(lowering, "mul", y, np.float32(alpha))
    if value is not None and row is None:
        combine(lowering, "add", y, value)
    elif c and value is None:
        addend = lowering.get(c, plain(len(lowering.dims(c))))
        if beta != 1:
            scaled = lowering.scratch(addend.dtype, addend.dims)
            factor = lowering.constant(np.float32(beta).reshape(1))
            attrs: dict[str, StepAttr] = {"op": "mul", "shape": [prod(addend.dims)]}
            lowering.step(
                "binary", {"a": addend, "b": factor}, {"y": scaled}, {**attrs, "b_strides": [0]}
            )
            addend = scaled
        combine(lowering, "add", y, addend)


def combine(lowering: Lowering, op: str, y: View, operand: Array | np.float32 | View) -> None:
    """y = y op operand, which is broadcast to it."""
    view = operand if isinstance(operand, View) else lowering.constant(np.asarray(operand))
    strides = broadcast_strides(view.dims, plain(len(view.dims)), y.dims, plain(len(y.dims)))
    shape, (a_walk, b_walk) = collapse(y.dims, strides_of(y.dims), strides)
    lowering.step(
        "binary",
        {"a": y, "b": view},
        {"y": y},
        {"op": op, "shape": shape, "a_strides": a_walk, "b_strides": b_walk},
    )
