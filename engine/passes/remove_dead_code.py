"""Take out what no output needs."""

from palmkit.engine.ir import Graph
from palmkit.engine.passes.rewrite import rewrite


def remove_dead_code(graph: Graph) -> Graph:
    """Nodes and constants that no graph output hangs on go; graph inputs stay."""
    return rewrite(graph, lambda draft, node: None)
