"""The same node twice, the same constant twice: once is enough."""

from collections.abc import Hashable

from palmkit.engine.ir import Array, Graph, Node
from palmkit.engine.passes.rewrite import Change, Draft, rewrite

_MOST_BYTES = 1 << 16


def merge_common(graph: Graph) -> Graph:
    """A node of the same op, attributes and inputs as an earlier one gives way to it.

    Constants of over 64 KiB are told apart by name only: comparing them costs more than it saves.
    """
    first_of: dict[Hashable, str] = {}
    same = {
        name: first_of.setdefault(_content(value), name)
        for name, value in graph.constants.items()
        if value.nbytes <= _MOST_BYTES
    }
    seen: dict[Hashable, tuple[str, ...]] = {}

    def merge(draft: Draft, node: Node) -> Change:
        inputs = tuple(same.get(name, name) for name in node.inputs)
        outputs = seen.get(_signature(node, inputs))
        if outputs is None or any(draft.producer(name) is None for name in outputs if name):
            seen[_signature(node, inputs)] = node.outputs
            return None
        return dict(zip(node.outputs, outputs, strict=True))

    return rewrite(graph, merge)


def _content(value: Array) -> Hashable:
    return value.dtype.str, value.shape, value.tobytes()


def _signature(node: Node, inputs: tuple[str, ...]) -> Hashable:
    present = tuple(bool(name) for name in node.outputs)
    return node.op, inputs, tuple(sorted(node.attrs.items())), present
