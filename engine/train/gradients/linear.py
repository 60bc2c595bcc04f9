"""Gradients of products of matrices, convolutions and resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node
from palmkit.engine.ops import find
from palmkit.engine.ops.windows import place
from palmkit.engine.train.gradients import Backward, Rule

Back = Sequence["str | None"]


def _matmul(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs
    first, second = tape.dims(a), tape.dims(b)
    # Vectors as matrices of one row or column.
    left = tape.reshape(a, (1, *first)) if len(first) == 1 else a
    right = tape.reshape(b, (*second, 1)) if len(second) == 1 else b
    rows, columns = tape.dims(left)[-2], tape.dims(right)[-1]
    batch = np.broadcast_shapes(tape.dims(left)[:-2], tape.dims(right)[:-2])
    dy = tape.reshape(dy, (*batch, rows, columns))
    back: list[str | None] = [None, None]
    if a in tape.wants:
        whole = tape.add("matmul", dy, tape.swap_last(right))
        back[0] = tape.reshape(tape.sum_to(whole, tape.dims(left)), first)
    if b in tape.wants:
        if len(tape.dims(right)) == 2 and len(batch):
            # The batch shares the weights: one long product replaces many that would be added up.
            inner = tape.dims(left)[-1]
            tall = tape.reshape(tape.expand(left, (*batch, rows, inner)), (-1, inner))
            whole = tape.add("matmul", tape.swap_last(tall), tape.reshape(dy, (-1, columns)))
        else:
            whole = tape.add("matmul", tape.swap_last(left), dy)
        back[1] = tape.reshape(tape.sum_to(whole, tape.dims(right)), second)
    return back


def _gemm(tape: Backward, node: Node, dy: str) -> Back:
    a, b = node.inputs[:2]
    alpha, beta = (node.number(name) for name in ("alpha", "beta"))
    turned_a, turned_b = (bool(node.integer(name)) for name in ("transA", "transB"))

    def scaled(x: str, by: float) -> str:
        return x if by == 1 else tape.add("mul", x, tape.number(by, x))

    flow = scaled(dy, alpha)
    back: list[str | None] = [None, None]
    if a in tape.wants:
        right = b if turned_b else tape.swap_last(b)
        da = tape.add("matmul", flow, right)
        back[0] = tape.swap_last(da) if turned_a else da
    if b in tape.wants:
        left = a if turned_a else tape.swap_last(a)
        db = tape.add("matmul", left, flow)
        back[1] = tape.swap_last(db) if turned_b else db
    if len(node.inputs) > 2:
        c = node.inputs[2]
        wanted = c in tape.wants
        back.append(tape.sum_to(scaled(dy, beta), tape.dims(c)) if wanted else None)
    return back


def _bias(tape: Backward, node: Node, dy: str) -> list[str | None]:
    if len(node.inputs) < 3:
        return []
    axes = [axis for axis in range(len(tape.dims(dy))) if axis != 1]
    return [tape.sum(dy, axes) if node.inputs[2] in tape.wants else None]


def _conv(tape: Backward, node: Node, dy: str) -> Back:
    x, w = node.inputs[:2]
    _need_constant(tape, node, w)
    windows = place(
        "conv",
        tape.type(x),
        tape.dims(w)[2:],
        node.text("auto_pad"),
        node.integers("dilations"),
        node.integers("pads"),
        node.integers("strides"),
    )
    rank = len(windows.kernel)
    # Elements at the end of x that no window reaches have gradient zero.
    extra = [
        size
        - (
            (count - 1) * stride
            + dilation * (kernel - 1)
            + 1
            - windows.pads[axis]
            - windows.pads[rank + axis]
        )
        for axis, (size, count, stride, dilation, kernel) in enumerate(
            zip(
                tape.dims(x)[2:],
                windows.sizes,
                windows.strides,
                windows.dilations,
                windows.kernel,
                strict=True,
            )
        )
    ]
    dx = None
    if x in tape.wants:
        dx = tape.add(
            "conv_transpose",
            dy,
            w,
            dilations=windows.dilations,
            group=node.integer("group"),
            output_padding=tuple(extra),
            pads=windows.pads,
            strides=windows.strides,
        )
    return [dx, None, *_bias(tape, node, dy)]


def _conv_transpose(tape: Backward, node: Node, dy: str) -> Back:
    x, w = node.inputs[:2]
    _need_constant(tape, node, w)
    if node.text("auto_pad") != "NOTSET" or node.has("output_shape"):
        raise UnsupportedError(
            f"node {node.label}: no gradient of conv_transpose with auto_pad or "
            "output_shape: resolve its pads first"
        )
    dx = None
    if x in tape.wants:
        rank = len(tape.dims(x)) - 2
        pads = node.integers("pads") or (0,) * 2 * rank
        attrs = {
            "dilations": (node.integers("dilations") or (1,) * rank),
            "strides": (node.integers("strides") or (1,) * rank),
        }
        group = node.integer("group")
        dx = tape.add("conv", dy, w, group=group, pads=pads, **attrs)
        # Rows that only output_padding reached make a window of their own.
        dx = tape.slice(dx, {2 + axis: (0, tape.dims(x)[2 + axis], 1) for axis in range(rank)})
    return [dx, None, *_bias(tape, node, dy)]


def _need_constant(tape: Backward, node: Node, w: str) -> None:
    if w in tape.wants:
        raise UnsupportedError(f"node {node.label}: no gradient for the weights of {node.op}")


def _resize(tape: Backward, node: Node, dy: str) -> Back:
    """Multiply by the transposes: resizing is a matrix along each axis."""
    if node.text("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise UnsupportedError(f"node {node.label}: no gradient of crop and resize")
    dims, rest = tape.dims(node.inputs[0]), node.inputs[1:]
    others = [tape.value(name) if name else None for name in rest]
    for axis, size in enumerate(dims):
        if tape.dims(dy)[axis] == size and tape.dims(node.outputs[0])[axis] == size:
            continue
        rows = [_resized(tape, node, others, axis, row) for row in range(size)]
        matrix = np.stack(rows, axis=1).astype(tape.type(dy).dtype)
        order = [*(each for each in range(len(dims)) if each != axis), axis]
        last = tape.add("matmul", tape.transpose(dy, order), tape.constant(matrix))
        dy = tape.transpose(last, [int(each) for each in np.argsort(order)])
    return [dy, *[None] * len(rest)]


def _resized(
    tape: Backward, node: Node, others: Sequence[Array | None], axis: int, row: int
) -> Array:
    """Return float64[out]: what becomes of the row-th element along an axis."""
    dims = tape.dims(node.inputs[0])
    line = np.zeros(dims, np.float64)
    line[tuple(slice(None) if each != axis else row for each in range(len(dims)))] = 1
    resized = np.asarray(find(node.op).reference(line, *others, **node.attrs))
    middle = [size // 2 for size in resized.shape]
    return resized[tuple(slice(None) if each == axis else at for each, at in enumerate(middle))]


RULES: dict[str, Rule] = {
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "gemm": _gemm,
    "matmul": _matmul,
    "resize": _resize,
}
