"""How long runs take, as a whole and by layers, with floats and with integers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.compress.quantize import Quantizer, write
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types
from palmkit.engine.shapes import with_input_shapes
from palmkit.engine.steps.step import JOINED

Inputs = Mapping[str, Array]
# A graph is faster if its run takes at most this share of the other's: times vary.
_FASTER = 0.98
# It is clearly faster at this one: nothing is taken back for less.
CLEARLY = 0.9
# Looks at the times of steps, and runs at each; the least of a step counts.
_LOOKS, _RUNS = 6, 3
# The numbers whose conversion is timed.
_FEW, _MANY = 64, 1 << 16
_NAME = "node "


def fastest_ms(graph: Graph, inputs: Inputs, runs: int = 25) -> float:
    """Return the milliseconds of a graph's fastest run, as `in_turns_ms` does."""
    return in_turns_ms([graph], inputs, runs)[0]


def in_turns_ms(
    graphs: Sequence[Graph],
    inputs: Inputs,
    runs: int = 25,
    make: Callable[[Graph], Model] = Model,
) -> list[float]:
    """Return the milliseconds of each graph's fastest run, on one thread; graphs take turns.

    It is the thread's own time, which does not count what other processes take of the core.
    make: plans a graph, or gives the plan that there is.
    """
    models = [make(graph) for graph in graphs]
    times: list[list[float]] = []
    for _ in range(runs):
        times.append([])
        for model in models:
            begin = time.thread_time()
            model.run(inputs)
            times[-1].append((time.thread_time() - begin) * 1e3)
    return [float(each) for each in np.min(times, axis=0)]


def is_faster(graph: Graph, than: Graph, inputs: Inputs, share: float = _FASTER) -> bool:
    """Return whether the fastest run of a graph takes at most this share of another's."""
    now, before = in_turns_ms([graph, than], inputs)
    return now <= share * before


@dataclass(frozen=True)
class Part:
    """Nodes that run as one step, with floats or with integers: both or none are integers.

    nodes: their first outputs in the prepared graph. float_s, integer_s: seconds of a run.
    """

    nodes: tuple[str, ...]
    float_s: float
    integer_s: float


@dataclass(frozen=True)
class Costs:
    """What a run takes, in seconds: the parts of a graph, and conversions of values between them.

    parts: in running order. conversion_s: from float32 to integers or back, by the count of
    numbers. sizes: the count of numbers of each value. rest_s: of what is the same either way.
    """

    parts: Sequence[Part]
    conversion_s: Callable[[int], float]
    sizes: Mapping[str, int]
    rest_s: float = 0.0


def measured(quantizer: Quantizer) -> Costs:
    """Return the costs on this machine, with one thread, by running the graph on a sample."""
    inputs = quantizer.samples[0]
    shapes = {name: np.shape(value) for name, value in inputs.items()}
    types = infer_types(with_input_shapes(quantizer.graph, shapes))
    nodes = [replace(n, name=f"{_NAME}{i}") for i, n in enumerate(quantizer.graph.nodes)]
    named = quantizer.graph.with_nodes(tuple(nodes), quantizer.graph.constants)
    placement = quantizer.candidates.place()
    integers = write(named, placement, quantizer.ranges(placement, "min_max"))
    floats_s, integers_s = _step_seconds([named, integers], inputs)
    outputs = [node.outputs[0] for node in nodes]
    found = _parts(outputs, floats_s, integers_s)
    sizes = {name: _size(type) for name, type in types.items()}
    rest = sum(seconds for each, seconds in floats_s.items() if not each)
    return Costs(found, _conversion(), sizes, rest)


def _size(type: Type) -> int:
    return int(np.prod(type.dims)) if type.is_static else 0


def _step_seconds(graphs: Sequence[Graph], inputs: Inputs) -> list[dict[frozenset[int], float]]:
    """Return for each graph the seconds of its steps, by the numbers in the names of their nodes.

    Steps of no such node, which convert and copy, are those of the empty set.
    """
    models = [Model(graph) for graph in graphs]
    looks: list[list[Array]] = [[] for _ in graphs]
    labels: list[list[str]] = []
    for _ in range(_LOOKS):
        labels = []
        for model, seen in zip(models, looks, strict=True):
            steps = model.profile(inputs, _RUNS)
            seen.append(np.array([step.seconds for step in steps]))
            labels.append([step.node for step in steps])
    found: list[dict[frozenset[int], float]] = []
    for names, seen in zip(labels, looks, strict=True):
        sums: dict[frozenset[int], float] = {}
        for name, seconds in zip(names, np.min(seen, axis=0).tolist(), strict=True):
            key = frozenset(_numbers(name))
            sums[key] = sums.get(key, 0.0) + seconds
        found.append(sums)
    return found


def _numbers(label: str) -> Iterable[int]:
    for part in label.split(JOINED):
        number = part.removeprefix(_NAME)
        if part != number and number.isdecimal():
            yield int(number)


def _parts(
    outputs: Sequence[str],
    floats_s: Mapping[frozenset[int], float],
    integers_s: Mapping[frozenset[int], float],
) -> list[Part]:
    """Return the finest parts of which no step has nodes of two."""
    first = list(range(len(outputs)))
    for step in (*floats_s, *integers_s):
        together = {first[number] for number in step}
        first = [min(together) if each in together else each for each in first]
    seconds = np.zeros((2, len(outputs)))
    for row, steps in zip(seconds, (floats_s, integers_s), strict=True):
        for step, each in steps.items():
            if step:
                row[first[min(step)]] += each
    return [
        Part(
            tuple(name for name, root in zip(outputs, first, strict=True) if root == number),
            *seconds[:, number].tolist(),
        )
        for number in sorted(set(first))
    ]


def _conversion() -> Callable[[int], float]:
    """Return the seconds of a conversion by the count of numbers: a line through two."""
    graphs: list[Graph] = []
    scale, zero = np.asarray(0.1, np.float32), np.asarray(3, np.uint8)
    for count in (_FEW, _MANY):
        shape = (1, count)
        nodes = (Node("quantize_linear", ("x", "scale", "zero"), ("y",)),)
        types = {"x": Type("float32", shape)}, {"y": Type("uint8", shape)}
        graphs.append(Graph(*types, nodes, {"scale": scale, "zero": zero}))
    times: list[float] = []
    for graph, count in zip(graphs, (_FEW, _MANY), strict=True):
        steps = Model(graph).profile({"x": np.ones((1, count), np.float32)}, 4 * _LOOKS)
        times.append(sum(step.seconds for step in steps))
    slope = max(0.0, (times[1] - times[0]) / (_MANY - _FEW))
    return lambda count: times[0] + slope * count
