"""Adding by channel folds into the bias of the layer before it."""

from math import prod

import numpy as np

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite
from palmkit.engine.passes.weights import by_channel, is_plain_layer, shifted


def fuse_bias(graph: Graph) -> Graph:
    """Fold add and sub of one constant a channel into the layer; write matmul of matrices as gemm.

    A matmul of more axes becomes a gemm between reshapes where that lets it take in the addition.
    """
    return rewrite(graph, _fuse, ("matmul", "add", "sub"))


def _fuse(draft: Draft, node: Node) -> Change:
    if node.op == "matmul":
        return _as_gemm(draft, node)
    x, addend = node.inputs
    if node.op == "add" and draft.constant(addend) is None:
        x, addend = addend, x
    layer, value = draft.sole_producer_with(x, is_plain_layer), draft.constant(addend)
    shift = None if layer is None or value is None else by_channel(draft, layer, value)
    if layer is None or shift is None:
        return None
    if node.op == "sub":
        shift = -shift
    if layer.op == "matmul":
        return _biased_gemm(draft, layer, shift, node)
    new = shifted(draft, layer, shift, node.outputs)
    return None if new is None else [new]


def _as_gemm(draft: Draft, node: Node) -> Change:
    weight, dims = draft.constant(node.inputs[1]), draft.dims(node.inputs[0])
    if weight is None or weight.ndim != 2 or dims is None or len(dims) != 2:
        return None
    return [Node("gemm", node.inputs, node.outputs, name=node.name)]


def _biased_gemm(draft: Draft, matmul: Node, shift: Array, node: Node) -> Change:
    x, weight = matmul.inputs
    dims, after = draft.dims(x), draft.dims(node.outputs[0])
    if dims is None or after is None or after != draft.dims(matmul.outputs[0]) or len(dims) < 3:
        return None
    y = node.outputs[0]
    flat, product = draft.new_value(f"{y}/flat"), draft.new_value(f"{y}/product")
    bias = shift.astype(draft.constants[weight].dtype)
    inputs = (flat, weight, draft.new_constant(f"{y}/bias", bias))
    rows = draft.new_constant(f"{y}/rows", np.array([prod(dims[:-1]), dims[-1]], np.int64))
    shape = draft.new_constant(f"{y}/shape", np.array(after, np.int64))
    return [
        Node("reshape", (x, rows), (flat,), name=matmul.name),
        Node("gemm", inputs, (product,), name=matmul.name),
        Node("reshape", (product, shape), (y,), name=node.name),
    ]
