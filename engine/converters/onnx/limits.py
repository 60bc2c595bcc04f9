"""Limits on how far a model's own functions may expand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from palmkit.engine.errors import ModelError

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

MOST_NODES = 1 << 20
MOST_CALLS_DEEP = 64


def check_functions(model: ModelProto) -> None:
    """Raise ModelError if the model's functions call each other in a circle, or too often.

    Once inlined, a few functions that call each other twice each would fill any memory.
    """
    bodies = {(each.domain, each.name): each.node for each in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(nodes: Iterable[NodeProto], calls: tuple[tuple[str, str], ...]) -> int:
        count = 0
        for node in nodes:
            called = (node.domain, node.op_type)
            count += 1
            if called in bodies:
                if called in calls:
                    raise ModelError(f"functions call each other in a circle: {node.op_type}")
                if len(calls) >= MOST_CALLS_DEEP:
                    raise ModelError(f"functions call each other over {MOST_CALLS_DEEP} deep")
                if called not in sizes:
                    sizes[called] = size(bodies[called], (*calls, called))
                count += sizes[called]
            for attribute in node.attribute:
                for body in (attribute.g, *attribute.graphs):
                    count += size(body.node, calls)
            if count > MOST_NODES:
                raise ModelError(f"functions make over {MOST_NODES} nodes")
        return count

    size(model.graph.node, ())
    for name, nodes in bodies.items():
        size(nodes, (name,))
