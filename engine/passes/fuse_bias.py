"""Adding by channel goes into the bias of the layer before."""

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.weights import LAYERS, by_channel, shifted


def fuse_bias(graph: Graph) -> Graph:
    """add and sub of one constant a channel after a layer; matmul of matrices is a gemm."""
    return rewrite(graph, _fuse)


def _fuse(draft: Draft, node: Node) -> Change:
    if node.op == "matmul":
        return _as_gemm(draft, node)
    if node.op not in ("add", "sub") or len(node.inputs) != 2:
        return None
    x, addend = node.inputs
    if node.op == "add" and draft.constant(addend) is None:
        x, addend = addend, x
    layer, value = draft.sole_producer(x, *LAYERS), draft.constant(addend)
    shift = None if layer is None or value is None else by_channel(draft, layer, value)
    if layer is None or shift is None:
        return None
    new = shifted(draft, layer, shift if node.op == "add" else -shift, node.outputs)
    return None if new is None else [new]


def _as_gemm(draft: Draft, node: Node) -> Change:
    weight, dims = draft.constant(node.inputs[1]), draft.dims(node.inputs[0])
    if weight is None or weight.ndim != 2 or dims is None or len(dims) != 2:
        return None
    return [Node("gemm", node.inputs, node.outputs, name=node.name)]
