"""numpy, one op at a time: the living definition of every op."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Graph, Node

if TYPE_CHECKING:
    from palmkit.engine.format.model_file import ModelFile, Shapes
    from palmkit.engine.steps.plan import StepTime


@dataclass(frozen=True)
class ReferenceProgram:
    """Runs the nodes in order.

    last_uses: for each node, the values that nothing reads after it.
    """

    graph: Graph
    last_uses: tuple[tuple[str, ...], ...]
    devices: tuple[str, ...] = ("reference",)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name, each an array of its own."""
        values = {**self.graph.constants, **inputs}
        for _ in self._steps(values):
            pass
        return {name: np.array(values[name]) for name in self.graph.outputs}

    def profile(self, inputs: Mapping[str, Array]) -> list[StepTime]:
        """Run once and time each node."""
        from palmkit.engine.steps.plan import StepTime

        times: list[StepTime] = []
        start = time.perf_counter()
        for node in self._steps({**self.graph.constants, **inputs}):
            now = time.perf_counter()
            times.append(StepTime(node.label, node.op, now - start))
            start = now
        return times

    def _steps(self, values: dict[str, Array]) -> Iterator[Node]:
        from palmkit.engine.ops import run_reference

        for node, last_used in zip(self.graph.nodes, self.last_uses, strict=True):
            results = run_reference(node, [values[name] if name else None for name in node.inputs])
            values.update(zip(node.outputs, results, strict=False))
            for name in last_used:
                values.pop(name, None)
            yield node


class Reference:
    """The numpy backend: slow, and right by definition."""

    def missing(self) -> str:
        """Nothing, anywhere."""
        return ""

    def supports(self, node: Node) -> bool:
        """Every op that is defined."""
        from palmkit.engine.ops import registry

        return node.op in registry()

    def prepared(self, graph: Graph) -> Graph:
        """All passes over it."""
        from palmkit.engine.passes import optimise

        return optimise(graph)

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> ReferenceProgram:
        """Make a graph ready; one UnsupportedError names every node it cannot run.

        options: numpy decides for itself.
        """
        from palmkit.engine.steps.plan import last_uses

        unknown = [f"{node.label} ({node.op})" for node in graph.nodes if not self.supports(node)]
        if unknown:
            raise UnsupportedError(f"backend reference does not know: {', '.join(unknown)}")
        names = [(*node.inputs, *node.outputs) for node in graph.nodes]
        return ReferenceProgram(graph, last_uses(names, graph.outputs))

    def stored(self, file: ModelFile, shapes: Shapes, options: Options) -> None:
        """There is nothing to be made ready."""

    def ready_plan(self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str) -> None:
        """There is nothing to be made ready."""
