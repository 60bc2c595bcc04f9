"""Nodes that no output needs are removed."""

from dataclasses import replace

from palmkit.engine.ir import Graph, Node
from palmkit.engine.passes.rewrite import Draft


def remove_dead_code(graph: Graph) -> Graph:
    """Remove nodes and constants that no graph output depends on; graph inputs stay."""
    draft = Draft(graph)
    graph = draft.rewritten(_keep, ())
    constants = {name: value for name, value in graph.constants.items() if draft.reads(name)}
    return (
        graph if constants.keys() == graph.constants.keys() else replace(graph, constants=constants)
    )


def _keep(draft: Draft, node: Node) -> None:
    return None
