"""Adding a picture to a convolution's output becomes part of the convolution."""

from dataclasses import replace

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.weights import is_convolution


def fuse_residual(graph: Graph) -> Graph:
    """Fuse add(conv, z) of equal shapes, where nobody else reads the convolution.

    Of two convolutions the later one takes the other in: it runs when the other is ready.
    """
    return rewrite(graph, _fuse, ("add",))


def _fuse(draft: Draft, node: Node) -> Change:
    a, b = node.inputs
    for x, z in ((a, b), (b, a)) if draft.place(a) > draft.place(b) else ((b, a), (a, b)):
        layer = draft.sole_producer_with(x, is_convolution)
        if layer is None or layer.has("activation") or len(layer.inputs) > 3:
            continue
        dims = draft.dims(x)
        if dims is None or dims != draft.dims(z) or draft.constant(z) is not None:
            continue
        inputs = (*layer.inputs, *[""] * (3 - len(layer.inputs)), z)
        return [replace(layer, op="fused_conv", inputs=inputs, outputs=node.outputs)]
    return None
