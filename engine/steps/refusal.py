"""How a backend says which nodes of a graph it cannot run."""

from collections.abc import Mapping, Set

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Node


class RefusedError(UnsupportedError):
    """A backend runs a part of the graph only.

    reasons: by the first output of each refused node, why.
    untyped: those of them that it may take once their types are known.
    """

    def __init__(
        self,
        message: str,
        reasons: Mapping[str, str] | None = None,
        untyped: Set[str] = frozenset(),
    ) -> None:
        """Say it in one message, and for each node."""
        super().__init__(message)
        self.reasons = dict(reasons or {})
        self.untyped = frozenset(untyped)


def first_output(node: Node) -> str:
    """The name that stands for a node: of the first value it writes."""
    return next(name for name in node.outputs if name)
