"""A product and a sum become one op instead of two that each go through the picture."""

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def fuse_multiply_add(graph: Graph) -> Graph:
    """Rewrite add(mul(a, b), z) as multiply_add, where a and z have the result's shape.

    Nobody else may read the product. Constants are left alone: other passes fold them into layers.
    """
    return rewrite(graph, _fuse, ("add",))


def _fuse(draft: Draft, node: Node) -> Change:
    type = draft.type(node.outputs[0])
    if type is None or type.dtype not in FLOATS:
        return None
    first, second = node.inputs
    for product, z in ((first, second), (second, first)):
        mul = draft.sole_producer(product, "mul")
        if mul is None or draft.dims(z) != type.dims:
            continue
        for a, b in (mul.inputs, mul.inputs[::-1]):
            if draft.dims(a) == type.dims and all(draft.constant(x) is None for x in (a, b, z)):
                return [Node("multiply_add", (a, b, z), node.outputs, name=node.name)]
    return None
