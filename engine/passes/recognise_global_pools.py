"""A mean or maximum over the whole picture becomes one op, however it is written."""

from palmkit.engine.ir import Graph, Node
from palmkit.engine.ops.dtypes import FLOATS
from palmkit.engine.passes.rewrite import Change, Draft, input_at, rewrite

_GLOBAL = {
    "average_pool": "global_average_pool",
    "reduce_mean": "global_average_pool",
    "max_pool": "global_max_pool",
    "reduce_max": "global_max_pool",
}


def recognise_global_pools(graph: Graph) -> Graph:
    """Rewrite a pool with one window, or a reduction that keeps its axes, over all spatial axes."""
    return rewrite(graph, _recognise, _GLOBAL)


def _recognise(draft: Draft, node: Node) -> Change:
    type, dims = draft.type(node.inputs[0]), draft.dims(node.inputs[0])
    if type is None or dims is None or type.dtype not in FLOATS:
        return None
    if len(dims) < 3 or any(draft.reads(name) for name in node.outputs[1:]):
        return None
    is_pool = node.op.endswith("_pool")
    if not (_has_one_window(node, dims) if is_pool else _reduces_space(draft, node, dims)):
        return None
    return [Node(_GLOBAL[node.op], node.inputs[:1], node.outputs[:1], name=node.name)]


def _has_one_window(node: Node, dims: tuple[int, ...]) -> bool:
    plain = node.text("auto_pad") in ("NOTSET", "VALID")
    return (
        plain
        and node.integers("kernel_shape") == dims[2:]
        and not any(node.integers("pads"))
        and all(dilation == 1 for dilation in node.integers("dilations"))
    )


def _reduces_space(draft: Draft, node: Node, dims: tuple[int, ...]) -> bool:
    axes = draft.constant(input_at(node, 1))
    if axes is None or not node.integer("keepdims"):
        return False
    return {int(axis) % len(dims) for axis in axes.reshape(-1)} == set(range(2, len(dims)))
