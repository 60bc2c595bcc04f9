"""The backends: each turns a graph into something that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.backends.reference import Reference
from palmkit.engine.ir import Array, Graph, Node

if TYPE_CHECKING:
    from palmkit.engine.plan import StepTime


class Program(Protocol):
    """A graph made ready for one backend; safe to use from many threads."""

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; inputs have the graph's types."""
        ...

    def profile(self, inputs: Mapping[str, Array]) -> Sequence[StepTime]:
        """Run once and time each step."""
        ...


class Backend(Protocol):
    """One way of running graphs."""

    def available(self) -> bool:
        """Can it run on this machine?"""
        ...

    def supports(self, node: Node) -> bool:
        """Has it a rule for the node's op?"""
        ...

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> Program:
        """Make a static graph ready; one UnsupportedError names every node it cannot run."""
        ...


BACKENDS: dict[str, Backend] = {"reference": Reference(), "cpu": Cpu()}
