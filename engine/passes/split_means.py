"""The mean of a sum becomes the sum of the means."""

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite


def split_means(graph: Graph) -> Graph:
    """Rewrite global_average_pool(add(a, b)) of equal shapes as a sum of means.

    Nobody else may read the sum. Its picture is then neither written nor read.
    """
    return rewrite(graph, _split, ("global_average_pool",))


def _split(draft: Draft, node: Node) -> Change:
    add = draft.sole_producer(node.inputs[0], "add")
    if add is None:
        return None
    dims = [draft.dims(name) for name in (*add.inputs, *add.outputs)]
    if dims[0] is None or dims.count(dims[0]) != len(dims):
        return None
    y = node.outputs[0]
    means = tuple(draft.new_value(f"{y}/{which}") for which in ("a", "b"))
    pools = [
        Node("global_average_pool", (x,), (mean,), name=node.name)
        for x, mean in zip(add.inputs, means, strict=True)
    ]
    return [*pools, Node("add", means, (y,), name=add.name)]
