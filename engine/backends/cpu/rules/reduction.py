"""Ops that gather many elements into one: reductions, softmax, matrix products."""

from math import prod

import numpy as np

from palmkit.engine.backends.cpu.lowering import Lowering, plain, rule, strides_of
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node
from palmkit.engine.plan import View

REDUCTIONS = {
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_l2": "l2",
}


def _reduce(lowering: Lowering, x: str, y: str, axes: set[int], op: str, keepdims: bool) -> None:
    order = lowering.order(x)
    view = lowering.get(x, order)
    strides = strides_of(view.dims)
    kept = [i for i, axis in enumerate(order) if axis not in axes]
    reduced = [i for i, axis in enumerate(order) if axis in axes]
    if keepdims:
        out_order = order
    else:
        left = sorted(order[i] for i in kept)
        out_order = tuple(left.index(order[i]) for i in kept)
    lowering.step(
        "reduce",
        [view],
        [lowering.put(y, out_order)],
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
    """Over any axes, in whatever order the input lies."""
    x, axes = (*node.inputs, "")[:2]
    lowering.need_dtype(x)
    rank = len(lowering.dims(x))
    which = (
        {int(axis) % rank for axis in lowering.constant_of(axes, "axes").reshape(-1)}
        if axes
        else set[int]()
    )
    if not which and not node.attrs.get("noop_with_empty_axes"):
        which = set(range(rank))
    keepdims = bool(node.attrs.get("keepdims", 1))
    _reduce(lowering, x, node.outputs[0], which, REDUCTIONS[node.op], keepdims)


@rule("global_average_pool", "global_max_pool")
def lower_global_pool(lowering: Lowering, node: Node) -> None:
    """A reduction over space."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    op = "mean" if node.op == "global_average_pool" else "max"
    _reduce(lowering, x, node.outputs[0], set(range(2, len(lowering.dims(x)))), op, True)


@rule("softmax", "log_softmax")
def lower_softmax(lowering: Lowering, node: Node) -> None:
    """Along one axis, wherever it lies in memory."""
    x = node.inputs[0]
    lowering.need_dtype(x)
    rank = len(lowering.dims(x))
    order = lowering.order(x)
    axis = order.index(int(node.attrs.get("axis", -1)) % rank)  # type: ignore[arg-type]
    view = lowering.get(x, order)
    lowering.step(
        "softmax",
        [view],
        [lowering.put(node.outputs[0], order)],
        {
            "outer": prod(view.dims[:axis]),
            "axis": view.dims[axis],
            "inner": prod(view.dims[axis + 1 :]),
            "log": int(node.op == "log_softmax"),
        },
    )


def _matmul(
    lowering: Lowering, a: View, b: View, bias: View | None, y: View, trans_b: bool = False
) -> None:
    """y[..., m, n] = a[..., m, k] b[..., k, n]; leading dims are broadcast."""
    m, k = a.dims[-2:]
    if k == 0:
        lowering.step("fill", [], [y], {"value": 0.0})
        return
    n = y.dims[-1]
    batch = y.dims[:-2]
    if batch and prod(b.dims[:-2]) == 1 and prod(a.dims[:-2]) == prod(batch):
        m, batch = m * prod(batch), ()
    walks: list[list[int]] = []
    for view in (a, b):
        lead = view.dims[:-2]
        strides = strides_of(view.dims)[: len(lead)]
        walk = [s if d > 1 else 0 for s, d in zip(strides, lead, strict=True)]
        walks.append([0] * (len(batch) - len(lead)) + walk if batch else [])
    lowering.step(
        "matmul",
        [a, b, bias],
        [y],
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
    _matmul(lowering, a, b, None, matrix)


@rule("gemm")
def lower_gemm(lowering: Lowering, node: Node) -> None:
    """alpha and the transposition of b are folded into b, beta into a constant c."""
    lowering.need_dtype(*node.inputs)
    a, b, c = (*node.inputs, "")[:3]
    alpha = float(node.attrs.get("alpha", 1.0))  # type: ignore[arg-type]
    beta = float(node.attrs.get("beta", 1.0))  # type: ignore[arg-type]
    left = lowering.get(a, (1, 0) if node.attrs.get("transA") else (0, 1))
    trans_b = bool(node.attrs.get("transB"))
    y = lowering.put(node.outputs[0])
    if lowering.is_constant(b):
        weights = lowering.constant_of(b, "b")
        scaled = weights if alpha == 1 else weights * np.float32(alpha)
        right = lowering.constant(scaled)
    elif alpha == 1:
        right = lowering.get(b, plain(2))
    else:
        raise UnsupportedError("alpha with a computed b")
    bias: View | None = None
    if c:
        value = lowering.constant_of(c, "c") * np.float32(beta)
        row = np.broadcast_to(value, lowering.dims(node.outputs[0]))
        if (row != row[:1]).any():
            raise UnsupportedError("a bias that differs from row to row")
        bias = lowering.constant(row[0])
    _matmul(lowering, left, right, bias, y, trans_b)
