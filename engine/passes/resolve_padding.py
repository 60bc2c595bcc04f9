"""Padding given by rule becomes explicit padding as soon as the sizes are known."""

from collections.abc import Collection

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops import find, traits_of
from palmkit.engine.ops.traits import Layer
from palmkit.engine.ops.windows import explicit_pads
from palmkit.engine.passes.rewrite import Change, Draft, rewrite, with_attrs


def resolve_padding(graph: Graph) -> Graph:
    """Replace auto_pad, and conv_transpose's output_shape, by pads, after ONNX's rules."""
    names = {node.op for node in graph.nodes}
    return rewrite(graph, _resolve, {op for op in names if _has_both(find(op).attributes)})


def _has_both(attributes: Collection[str]) -> bool:
    return "auto_pad" in attributes and "pads" in attributes


def _resolve(draft: Draft, node: Node) -> Change:
    if node.text("auto_pad") == "NOTSET" and not node.has("output_shape"):
        return None
    x = draft.dims(node.inputs[0])
    w = draft.dims(node.inputs[1]) if len(node.inputs) > 1 else None
    kernel = node.integers("kernel_shape") or (w or ())[2:]
    if x is None or not kernel:
        return None
    if traits_of(node.op).layer is Layer.TRANSPOSED:
        return _transposed(draft, node, x[2:], kernel)
    return [with_attrs(node, auto_pad=None, pads=explicit_pads(node.attrs, x[2:], kernel))]


def _transposed(
    draft: Draft, node: Node, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> Change:
    """Give the node pads, and output_padding where its output goes beyond the kernels' copies."""
    output = draft.dims(node.outputs[0])
    if output is None:
        return None
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    begins: list[int] = []
    ends: list[int] = []
    beyond: list[int] = []
    for size, reach, wanted, stride, dilation, extra in zip(
        spatial,
        kernel,
        output[2:],
        node.integers("strides") or ones,
        node.integers("dilations") or ones,
        node.integers("output_padding") or zeros,
        strict=True,
    ):
        total = stride * (size - 1) + extra + (reach - 1) * dilation + 1 - wanted
        beyond.append(extra + max(0, -total))
        total = max(0, total)
        begins.append(total // 2 if node.text("auto_pad") == "SAME_UPPER" else total - total // 2)
        ends.append(total - begins[-1])
    output_padding = tuple(beyond) if any(beyond) else None
    pads = (*begins, *ends)
    return [
        with_attrs(node, auto_pad=None, output_shape=None, output_padding=output_padding, pads=pads)
    ]
