"""Equal nodes and equal constants are merged."""

from collections.abc import Hashable

from palmkit.engine.ir import Array, Graph, Node, dtype_name
from palmkit.engine.ops import find
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_MOST_BYTES = 1 << 12


def merge_common(graph: Graph) -> Graph:
    """Replace a node by an earlier one of the same op, attributes and inputs.

    Constants of over 4 KiB are told apart by name only: comparing them costs more than it saves.
    """
    first_of: dict[Hashable, str] = {}
    same = {
        name: first_of.setdefault(_content(value), name)
        for name, value in graph.constants.items()
        if value.nbytes <= _MOST_BYTES
    }
    seen: dict[Hashable, list[Node]] = {}

    def merge(draft: Draft, node: Node) -> Change:
        if node.bodies or not find(node.op).pure:
            return None
        inputs = tuple(same.get(name, name) for name in node.inputs)
        alike = seen.setdefault((node.op, inputs, tuple(map(bool, node.outputs))), [])
        for other in alike:
            if other.attrs == node.attrs and draft.producer(other.outputs[0]) is not None:
                return dict(zip(node.outputs, other.outputs, strict=True))
        alike.append(node)
        return None

    return rewrite(graph, merge, {node.op for node in graph.nodes})


def _content(value: Array) -> Hashable:
    return dtype_name(value.dtype), value.shape, value.tobytes()
