"""The CPU or a GPU, whichever was timed to be faster for a model on this machine."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.errors import BackendError, PalmError
from palmkit.engine.ir import Array, Graph, Node, Type

if TYPE_CHECKING:
    from palmkit.engine.backends import Backend, Program
    from palmkit.engine.format.model_file import ModelFile, Shapes
    from palmkit.engine.format.plans import ReadyPlan

_log = logging.getLogger("palmkit.engine")

# Runs are timed for so long, and at least so often, in turns: a GPU's clock rises with its work.
SECONDS, RUNS = 0.3, 5
# What takes less than this part of the CPU's time is better: power and memory count as well.
BETTER = 0.9


class Auto:
    """The CPU, unless a GPU is there and better; the choice is kept with the user's timings.

    A software adapter is no GPU here. What cannot be made ready, or fails, on the GPU is run on the
    CPU, and so is what the GPU has no kernels for.
    """

    def __init__(self) -> None:
        """Stand for both."""
        self._cpu, self._gpu = Cpu(), Gpu()

    def missing(self) -> str:
        """Return why it cannot run on this machine: without the CPU's kernels it cannot."""
        return self._cpu.missing()

    def supports(self, node: Node) -> bool:
        """Whether the CPU has a rule for the node's op."""
        return self._cpu.supports(node)

    def prepared(self, graph: Graph) -> Graph:
        """The graph itself: both have passes of their own."""
        return graph

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> Program:
        """Make a static graph ready, on both the first time that its like is seen."""
        if self._gpu.missing():
            return _ready(graph, (self._cpu,), options)
        from palmkit.engine.backends.cpu.timings import TimingsFile
        from palmkit.engine.backends.gpu.device import device

        try:
            name = f"gpu: {device('hardware').name}"
        except BackendError as error:
            _log.info("backend auto: gpu is no choice: %s", error)
            return _ready(graph, (self._cpu,), options)
        ways: dict[str, tuple[Backend, ...]] = {
            "cpu": (self._cpu,),
            name: (self._gpu, self._cpu),
        }
        file, key = TimingsFile("auto"), _key(graph, options)
        seconds = file.read().get(key, {})
        if seconds.keys() != ways.keys():
            programs = _programs(graph, ways, options)
            seconds = _times(graph, programs)
            if seconds.keys() == ways.keys():
                file.add({key: seconds})
            chosen = _best(seconds)
            return programs[chosen]
        best = _best(seconds)
        found = _programs(graph, {best: ways[best]}, options)
        return found[best] if found else _ready(graph, ways["cpu"], options)

    def stored(
        self, file: ModelFile, shapes: Shapes, options: Options
    ) -> tuple[Program, dict[str, Type]] | None:
        """The CPU's plan in a file, where there is nothing else to choose."""
        return self._cpu.stored(file, shapes, options) if self._gpu.missing() else None

    def ready_plan(
        self, graph: Graph, shapes: Mapping[str, Sequence[int]], weights: str
    ) -> ReadyPlan | None:
        """It has no plans of its own."""
        return None


def _ready(graph: Graph, chain: Sequence[Backend], options: Options) -> Program:
    from palmkit.engine.backends.partition import compile_parts, specialise

    return compile_parts(specialise(graph, graph.inputs, chain[0]), chain, options)


def _programs(
    graph: Graph, ways: Mapping[str, Sequence[Backend]], options: Options
) -> dict[str, Program]:
    """What runs the graph each way; the CPU's errors are raised, others' leave them out."""
    programs: dict[str, Program] = {}
    for name, chain in ways.items():
        try:
            programs[name] = _ready(graph, chain, options)
        except PalmError as error:
            if name == "cpu":
                raise
            _log.info("backend auto: %s is no choice: %s", name, error)
    return programs


def _times(graph: Graph, programs: Mapping[str, Program]) -> dict[str, float]:
    """The least seconds of a run of each; one that fails has none."""
    from palmkit.engine.random_inputs import random_inputs

    inputs = random_inputs(graph.inputs)
    seconds: dict[str, float] = {}
    for name, program in programs.items():
        try:
            program.run(inputs)
            seconds[name] = _least(program, inputs)
        except PalmError as error:
            if name == "cpu":
                raise
            _log.info("backend auto: %s is no choice: %s", name, error)
    return seconds


def _least(program: Program, inputs: Mapping[str, Array]) -> float:
    found: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(found) < RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        program.run(inputs)
        found.append(time.perf_counter() - start)
    return min(found)


def _best(seconds: Mapping[str, float]) -> str:
    """The name of the best way, and a line of the log that tells of it."""
    fastest = min(seconds, key=lambda name: seconds[name])
    best = fastest if seconds[fastest] < BETTER * seconds["cpu"] else "cpu"
    told = ", ".join(f"{name} {1e3 * each:.3g} ms" for name, each in seconds.items())
    _log.info("backend auto: chose %s of %s", best, told)
    return best


def _key(graph: Graph, options: Options) -> str:
    """What a time depends on but the machine: what is computed, and how; no weight's value."""
    sizes = [(name, str(value.dtype), value.shape) for name, value in graph.constants.items()]
    nodes = [
        (node.op, node.inputs, node.outputs, sorted(node.attrs.items())) for node in graph.nodes
    ]
    import hashlib

    told = repr((list(graph.inputs.items()), nodes, sizes, options))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()
