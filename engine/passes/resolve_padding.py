"""Padding by rule becomes padding by number, as soon as the sizes are known."""

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops.windows import explicit_pads
from palmkit.engine.passes.rewrite import Change, Draft, ints, rewrite, with_attrs

_TRANSPOSED = ("conv_transpose", "fused_conv_transpose")
_WINDOWED = ("conv", "fused_conv", "max_pool", "average_pool", *_TRANSPOSED)


def resolve_padding(graph: Graph) -> Graph:
    """auto_pad, and conv_transpose's output_shape, become pads, after ONNX's rules."""
    return rewrite(graph, _resolve, _WINDOWED)


def _resolve(draft: Draft, node: Node) -> Change:
    rule = node.attrs.get("auto_pad", "NOTSET")
    if rule == "NOTSET" and not ints(node, "output_shape"):
        return None
    x = draft.dims(node.inputs[0])
    w = draft.dims(node.inputs[1]) if len(node.inputs) > 1 else None
    kernel = ints(node, "kernel_shape") or (w or ())[2:]
    if x is None or not kernel:
        return None
    if node.op in _TRANSPOSED:
        pads = _transposed_pads(draft, node, x[2:], kernel)
    else:
        pads = explicit_pads(node.attrs, x[2:], kernel)
    if pads is None:
        return None
    return [with_attrs(node, auto_pad=None, output_shape=None, pads=pads)]


def _transposed_pads(
    draft: Draft, node: Node, spatial: tuple[int, ...], kernel: tuple[int, ...]
) -> tuple[int, ...] | None:
    """None where the output is larger than what the kernels cover: pads cannot say that."""
    output = draft.dims(node.outputs[0])
    if output is None:
        return None
    ones = (1,) * len(kernel)
    begins: list[int] = []
    ends: list[int] = []
    for size, reach, wanted, stride, dilation, extra in zip(
        spatial,
        kernel,
        output[2:],
        ints(node, "strides", ones),
        ints(node, "dilations", ones),
        ints(node, "output_padding", (0,) * len(kernel)),
        strict=True,
    ):
        total = stride * (size - 1) + extra + (reach - 1) * dilation + 1 - wanted
        if total < 0:
            return None
        begins.append(
            total // 2 if node.attrs.get("auto_pad") == "SAME_UPPER" else total - total // 2
        )
        ends.append(total - begins[-1])
    return (*begins, *ends)
