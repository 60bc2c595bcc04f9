"""Ops without a gradient of their own, written as simpler ones that have it.

A convolution whose weights are trained becomes the product of a matrix of weights with the windows
side by side: its gradient follows from that of matmul, and the native kernels take weights that
change from run to run only there.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from math import prod

import numpy as np

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops import find, traits_of
from palmkit.engine.ops.windows import Windows, place
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.writer import Writer

WRITTEN = (
    "average_pool", "batch_normalization", "conv", "conv_transpose", "dropout",
    "global_max_pool", "layer_normalization", "max", "max_pool", "min", "reduce_max", "reduce_min",
    "rms_normalization", "split",
)  # fmt: skip
# Smaller than every value in use: it never is the largest of a window, and it has no infinity's
# trouble with differences.
LOWEST = -1e30


def write_out(graph: Graph, trained: Collection[str]) -> Graph:
    """Return the graph with such ops written out; of convolutions only those with trained weights.

    trained: values that change from run to run. Nodes of unknown sizes stay as they are.
    """
    wants = set(trained)
    for node in graph.nodes:
        if not wants.isdisjoint(node.inputs):
            wants.update(name for name in node.outputs if name)

    def rule(draft: Draft, node: Node) -> Change:
        if wants.isdisjoint(node.inputs):
            return None
        if draft.dims(node.inputs[0]) is None:
            return None
        weights_wanted = len(node.inputs) > 1 and node.inputs[1] in wants
        if node.op in ("conv", "conv_transpose") and not weights_wanted:
            return None
        writer = Writer(draft, node)
        return writer.nodes if _RULES[node.op](writer) else None

    return rewrite(graph, rule, set(WRITTEN))


def _windows(writer: Writer, kernel: tuple[int, ...]) -> Windows:
    node, x = writer.node, writer.draft.type(writer.node.inputs[0])
    assert x is not None
    return place(
        node.op,
        x,
        kernel,
        node.text("auto_pad"),
        node.integers("dilations"),
        node.integers("pads"),
        node.integers("strides"),
        node.integer("ceil_mode") if traits_of(node.op).pools else 0,
    )


def _cuts(writer: Writer, windows: Windows, fill: float) -> list[str]:
    """Return x as every offset of the kernel sees it: [n, c, *sizes] each."""
    node = writer.node
    x, rank = node.inputs[0], len(windows.kernel)
    dims = writer.draft.dims(x)
    assert dims is not None
    reach = [
        (count - 1) * stride + dilation * (kernel - 1) + 1
        for count, stride, dilation, kernel in zip(
            windows.sizes, windows.strides, windows.dilations, windows.kernel, strict=True
        )
    ]
    ends = [
        max(0, need - begin - size)
        for need, begin, size in zip(reach, windows.pads[:rank], dims[2:], strict=True)
    ]
    if any(windows.pads[:rank]) or any(ends):
        pads = np.array([0, 0, *windows.pads[:rank], 0, 0, *ends], np.int64)
        type = writer.draft.type(x)
        assert type is not None
        value = writer.constant("fill", np.asarray(fill, type.dtype))
        x = writer.add("pad", [x, writer.constant("pads", pads), value])
    axes = writer.constant("axes", np.arange(2, 2 + rank))
    steps = writer.constant("steps", np.array(windows.strides))
    cuts: list[str] = []
    for offset in product(*map(range, windows.kernel)):
        starts = np.array([at * d for at, d in zip(offset, windows.dilations, strict=True)])
        stops = starts + (np.array(windows.sizes) - 1) * np.array(windows.strides) + 1
        bounds = [writer.constant("starts", starts), writer.constant("stops", stops)]
        cuts.append(writer.add("slice", [x, *bounds, axes, steps]))
    return cuts


def _conv(writer: Writer) -> bool:
    node, draft = writer.node, writer.draft
    x, w = (draft.dims(name) for name in node.inputs[:2])
    if x is None or w is None:
        return False
    windows = _windows(writer, w[2:])
    group, outputs = node.integer("group"), w[0]
    cuts = _cuts(writer, windows, 0.0)
    places, taps = prod(windows.sizes), len(cuts)
    rank = len(windows.kernel)
    # Windows as [n, group, taps * c / group, places], weights as [group, m / group, the same].
    parts = [writer.reshape(cut, (x[0], group, w[1], places)) for cut in cuts]
    columns = parts[0] if taps == 1 else writer.add("concat", parts, axis=2)
    rows = writer.reshape(node.inputs[1], (group, outputs // group, w[1], taps))
    rows = writer.reshape(
        writer.transpose(rows, (0, 1, 3, 2)), (group, outputs // group, taps * w[1])
    )
    y = writer.add("matmul", [rows, columns])
    y = writer.reshape(y, (x[0], outputs, *windows.sizes))
    _finish_biased(writer, y, rank)
    return True


def _conv_transpose(writer: Writer) -> bool:
    """Write the product and depth to space, where windows do not overlap."""
    node, draft = writer.node, writer.draft
    x, w = (draft.dims(name) for name in node.inputs[:2])
    if x is None or w is None or len(w) != 4:
        return False
    strides = node.integers("strides") or (1, 1)
    plain = not any(node.integers("pads")) and not any(node.integers("output_padding"))
    plain = (
        plain and set(node.integers("dilations") or (1,)) == {1} and not node.has("output_shape")
    )
    if not plain or strides != w[2:] or node.integer("group") != 1:
        return False
    batch, channels, height, width = x
    outputs, kernel_h, kernel_w = w[1:]
    rows = writer.transpose(writer.reshape(node.inputs[1], (channels, prod(w[1:]))), (1, 0))
    y = writer.add(
        "matmul", [rows, writer.reshape(node.inputs[0], (batch, channels, height * width))]
    )
    y = writer.reshape(y, (batch, outputs, kernel_h, kernel_w, height, width))
    y = writer.transpose(y, (0, 1, 4, 2, 5, 3))
    y = writer.reshape(y, (batch, outputs, height * kernel_h, width * kernel_w))
    _finish_biased(writer, y, 2)
    return True


def _finish_biased(writer: Writer, y: str, rank: int) -> None:
    if len(writer.node.inputs) > 2 and writer.node.inputs[2]:
        bias = writer.reshape(writer.node.inputs[2], (-1, *[1] * rank))
        y = writer.add("add", [y, bias])
    writer.finish(y)


def _largest(writer: Writer, values: list[str], op: str = "max") -> str:
    """Write the largest, or smallest, of some values, two at a time."""
    while len(values) > 1:
        pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
        values = [pair[0] if len(pair) == 1 else writer.add(op, pair) for pair in pairs]
    return values[0]


def _max_pool(writer: Writer) -> bool:
    if len(writer.node.outputs) > 1 and writer.node.outputs[1]:
        return False
    windows = _windows(writer, writer.node.integers("kernel_shape"))
    writer.finish(_largest(writer, _cuts(writer, windows, LOWEST)))
    return True


def _extreme(writer: Writer) -> bool:
    if len(writer.node.inputs) < 3:
        return False
    writer.finish(_largest(writer, [*writer.node.inputs], writer.node.op))
    return True


def _average_pool(writer: Writer) -> bool:
    node, draft = writer.node, writer.draft
    x = draft.type(node.inputs[0])
    assert x is not None
    windows = _windows(writer, node.integers("kernel_shape"))
    cuts = _cuts(writer, windows, 0.0)
    total = cuts[0]
    for cut in cuts[1:]:
        total = writer.add("add", [total, cut])
    # The op's result for ones over the number of ones in a window is the weight of each element.
    ones = np.ones((1, 1, *x.dims[2:]))
    inside = windows.view(ones, 0.0).sum(windows.axes)
    weights = np.asarray(find("average_pool").reference(ones, **node.attrs)) / np.maximum(inside, 1)
    writer.finish(writer.add("mul", [total, writer.constant("share", weights.astype(x.dtype))]))
    return True


def _batch_normalization(writer: Writer) -> bool:
    node = writer.node
    x, scale, bias, mean, variance = node.inputs[:5]
    dims = writer.draft.dims(x)
    type = writer.draft.type(x)
    if dims is None or type is None or node.integer("training_mode"):
        return False
    shape = (-1, *[1] * (len(dims) - 2))
    epsilon = np.asarray(node.number("epsilon"), type.dtype)
    spread = writer.add("add", [variance, writer.constant("epsilon", epsilon)])
    gain = writer.add("div", [scale, writer.add("sqrt", [spread])])
    centred = writer.add("sub", [x, writer.reshape(mean, shape)])
    y = writer.add("mul", [centred, writer.reshape(gain, shape)])
    writer.finish(writer.add("add", [y, writer.reshape(bias, shape)]))
    return True


def _normalization(writer: Writer) -> bool:
    """Write out layer_normalization and rms_normalization over the axes from one to the last."""
    node = writer.node
    x = node.inputs[0]
    type = writer.draft.type(x)
    if type is None or any(node.outputs[1:]):
        return False
    rank = len(type.dims)
    first = node.integer("axis") % rank
    axes = writer.constant("axes", np.arange(first, rank))
    epsilon = np.asarray(node.number("epsilon"), type.dtype)
    if node.op == "layer_normalization":
        x = writer.add("sub", [x, writer.add("reduce_mean", [x, axes], keepdims=1)])
    power = writer.add("reduce_mean", [writer.add("mul", [x, x]), axes], keepdims=1)
    spread = writer.add("sqrt", [writer.add("add", [power, writer.constant("epsilon", epsilon)])])
    y = writer.add("mul", [writer.add("div", [x, spread]), node.inputs[1]])
    if len(node.inputs) > 2 and node.inputs[2]:
        y = writer.add("add", [y, node.inputs[2]])
    writer.finish(y)
    return True


def _reduced_extreme(writer: Writer) -> bool:
    """Halve each axis repeatedly: the larger of two values is what has a gradient."""
    node = writer.node
    x = node.inputs[0]
    dims = writer.draft.dims(x)
    assert dims is not None
    rank = len(dims)
    axes: tuple[int, ...] = tuple(range(rank))
    if node.op == "global_max_pool":
        axes = axes[2:]
    elif len(node.inputs) > 1 and node.inputs[1]:
        given = writer.draft.constant(node.inputs[1])
        if given is None:
            return False
        if given.size or node.integer("noop_with_empty_axes"):
            axes = tuple(int(axis) % rank for axis in given.ravel().tolist())
    op = "min" if node.op == "reduce_min" else "max"
    for axis in axes:
        one = writer.constant("axis", np.array([axis]))
        cuts = [
            writer.add(
                "slice",
                [
                    x,
                    writer.constant("start", np.array([at])),
                    writer.constant("stop", np.array([at + 1])),
                    one,
                ],
            )
            for at in range(dims[axis])
        ]
        x = _largest(writer, cuts, op)
    kept = node.op == "global_max_pool" or bool(node.integer("keepdims"))
    sizes = [
        1 if axis in axes else dim for axis, dim in enumerate(dims) if kept or axis not in axes
    ]
    writer.finish(writer.reshape(x, sizes))
    return True


def _split(writer: Writer) -> bool:
    node = writer.node
    dims = writer.draft.dims(node.inputs[0])
    assert dims is not None
    axis = node.integer("axis") % len(dims)
    start, one = 0, writer.constant("axis", np.array([axis]))
    for output in node.outputs:
        type = writer.draft.type(output)
        if type is None:
            return False
        bounds = [np.array([start]), np.array([start + type.dims[axis]])]
        cut = [writer.constant("bound", bound) for bound in bounds]
        writer.nodes.append(Node("slice", (node.inputs[0], *cut, one), (output,), {}, node.name))
        start += type.dims[axis]
    return True


def _dropout(writer: Writer) -> bool:
    x = writer.node.inputs[0]
    if any(writer.node.outputs[1:]) or len(writer.node.inputs) > 2:
        return False
    writer.finish(x)
    return True


_RULES = {
    "average_pool": _average_pool,
    "batch_normalization": _batch_normalization,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "dropout": _dropout,
    "global_max_pool": _reduced_extreme,
    "layer_normalization": _normalization,
    "max": _extreme,
    "max_pool": _max_pool,
    "min": _extreme,
    "reduce_max": _reduced_extreme,
    "reduce_min": _reduced_extreme,
    "rms_normalization": _normalization,
    "split": _split,
}
