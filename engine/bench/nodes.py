"""Our engine alone: the time of a model and of its nodes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from palmkit.engine.backends.partition import specialise
from palmkit.engine.bench.inputs import random_inputs
from palmkit.engine.bench.measurement import Times
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.macs import macs
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.steps.step import JOINED

_PROFILE_RUNS = 10
BORDER = "border"


@dataclass(frozen=True)
class NodeTime:
    """A node of the model as it runs, after the graph passes, or nodes that run as one step.

    node: its name, or all names with JOINED between. op: its op; "border" is a copy of an input or
    output. kernels: the kernels that ran it. share: share of the sum over all nodes. macs:
    multiply-accumulates of a run; None where they are not known.
    """

    node: str
    op: str
    kernels: str
    ms: float
    share: float
    macs: int | None


@dataclass(frozen=True)
class Alone:
    """A model's times in this process.

    inputs: types by name; nodes: in running order.
    """

    inputs: Mapping[str, str]
    times: Times
    nodes: tuple[NodeTime, ...]
    macs: int | None

    @property
    def ops_ms(self) -> dict[str, float]:
        """Return the kernels' times, the largest first."""
        sums = Counter[str]()
        for node in self.nodes:
            sums[node.kernels] += node.ms  # type: ignore[assignment]
        return dict(sorted(sums.items(), key=lambda item: -item[1]))


def time_alone(
    model: Model,
    sizes: Mapping[str, int],
    runs: int,
    report: Callable[[int], None] = lambda done: None,
) -> Alone:
    """Time a model on random inputs, and its nodes.

    sizes: the sizes of named dims. report: called with the number of finished runs.
    """
    inputs = random_inputs(model.inputs, sizes)
    model.run(inputs)
    seconds: list[float] = []
    for done in range(1, runs + 1):
        start = time.perf_counter()
        model.run(inputs)
        seconds.append(time.perf_counter() - start)
        report(done)
    nodes = _nodes(model, inputs, min(runs, _PROFILE_RUNS))
    counts = _macs_of_source(model, inputs)
    types = {name: str(Type.of(array)) for name, array in inputs.items()}
    return Alone(types, Times.of(seconds), nodes, counts)


def _nodes(model: Model, inputs: Mapping[str, Array], runs: int) -> tuple[NodeTime, ...]:
    graph = specialise(model.graph, {name: Type.of(array) for name, array in inputs.items()})
    types = infer_types(graph)
    written: dict[str, list[Node]] = {}
    for node in graph.nodes:
        written.setdefault(node.label, []).append(node)
    steps: dict[str, list[tuple[str, float]]] = {}
    for step in model.profile(inputs, runs):
        steps.setdefault(step.node, []).append((step.op, step.seconds))
    total = sum(seconds for each in steps.values() for _, seconds in each)
    found: list[NodeTime] = []
    for name, parts in steps.items():
        each = [name] if name in written else name.split(JOINED)
        nodes = [node for part in each for node in written.get(part, [])]
        seconds = sum(part for _, part in parts)
        counts = [macs(node, types) for node in nodes]
        found.append(
            NodeTime(
                node=name,
                op="+".join(node.op for node in nodes) or BORDER,
                kernels="+".join(dict.fromkeys(kernel for kernel, _ in parts)),
                ms=seconds * 1e3,
                share=seconds / total if total else 0.0,
                macs=None if None in counts else sum(count or 0 for count in counts),
            )
        )
    return tuple(found)


def _macs_of_source(model: Model, inputs: Mapping[str, Array]) -> int | None:
    """Return the multiply-accumulates of the network as written; passes may save some."""
    from palmkit.engine.shapes import with_input_shapes
    from palmkit.engine.summary import summarise

    graph = with_input_shapes(model.graph, {name: a.shape for name, a in inputs.items()})
    return summarise(graph).macs
