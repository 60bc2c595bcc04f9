"""Quantization with an error limit: some layers stay float.

What a layer in integers loses is measured for each alone (`sensitivity`), and what it gains as well
(`speed`). Layers become float again in the order of what they lose for the time that they gain, as
far as the limit needs; how far is found by bisection, with the error of the whole graph. Squares of
errors add up, roughly. A layer or a run of layers that takes no less time in integers, with the
conversions round it, stays float from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from palmkit.engine.compress.pipeline import LayerChoice, Progress
from palmkit.engine.compress.placement import data_inputs, is_layer
from palmkit.engine.compress.quantize import Quantizer, Settings
from palmkit.engine.compress.sensitivity import OutputNoise, noises
from palmkit.engine.compress.speed import Costs, Part
from palmkit.engine.errors import QuantizationError
from palmkit.engine.ir import Array, Graph

# Samples on which each layer is measured alone.
_TRIED = 6
# The share of a run that a layer must cost in integers to be called slow: times vary.
_WORTH = 0.002


@dataclass(frozen=True)
class Mixed:
    """A quantized graph with some float layers.

    kept: the layers that stay float, by name or first output: those that gain nothing in integers,
    then those that lose the most for what they gain.
    error: the graph's error, by the caller's measure.
    method: how the ranges of activations were chosen.
    layers: what became of each layer, in running order.
    """

    graph: Graph
    kept: tuple[str, ...]
    error: float
    method: str = ""
    layers: tuple[LayerChoice, ...] = ()


def quantize_within(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    limit: float,
    error: Callable[[Graph], float] | None = None,
    settings: Settings | None = None,
    *,
    methods: Sequence[str] = (),
    costs: Callable[[Quantizer], Costs] | None = None,
    progress: Progress = lambda share, text: None,
) -> Mixed:
    """Quantize with the float layers that hold an error limit and cost the least time.

    error: a measure of a graph, less is better, such as the loss on the task; left out, OutputNoise
    on the samples.
    methods: ways to choose ranges, of which the one with the least error is taken; left out, that
    of the settings. costs: gives what a run takes, such as `speed.measured`: layers that gain no
    time stay float as well; left out, every layer counts alike, and none stays float without need.
    Raises QuantizationError if even a single integer layer is over the limit, with the least error
    that was reached, and if no layer gains time; else as quantize does.
    """
    progress(0.0, "what the layers see")
    quantizer = Quantizer(graph, samples, settings)
    measure = error or OutputNoise(graph, quantizer.samples)
    plan = _Plan(quantizer, None if costs is None else costs(quantizer))
    if not plan.integers(()):
        raise QuantizationError("no layer can be quantized: expected one with constant weights")
    slow = plan.slow()
    if not plan.integers(slow):
        raise QuantizationError("no layer takes less time in integers on this machine")
    best: tuple[float, Graph, str] | None = None
    for number, method in enumerate(methods or [quantizer.settings.method]):
        progress(0.2 + 0.05 * number, f"int8, ranges by {method}")
        tried = quantizer.quantized(slow, method)
        got = measure(tried)
        if best is None or got < best[0]:
            best = got, tried, method
    assert best is not None
    error_reached, found, method = best
    orders, alone = [slow], dict[str, float]()
    if error_reached > limit:
        alone = noises(quantizer, method, _TRIED, lambda s, text: progress(0.4 + 0.3 * s, text))
        orders = plan.orders(slow, alone)
    low, high = 0, len(orders)
    least = error_reached
    within = 0 if error_reached <= limit else None
    while high - low > 1 and within != 0:
        middle = (low + high) // 2
        progress(0.7 + 0.3 * (1 - (high - low) / len(orders)), f"{middle} layers more in float")
        tried = quantizer.quantized(orders[middle], method)
        got = measure(tried)
        least = min(least, got)
        if got <= limit:
            high, within, found, error_reached = middle, middle, tried, got
        else:
            low = middle
    if within is None:
        total = len(plan.integers(()))
        raise QuantizationError(
            f"error limit: expected at most {limit:g}, reached {least:g} with "
            f"{len(plan.integers(orders[low]))} of {total} layers in integers"
        )
    kept = orders[within]
    return Mixed(found, kept, error_reached, method, plan.choices(kept, slow, alone))


@dataclass
class _Plan:
    """What layers gain in integers, alone and together.

    costs: left out, each layer takes one with floats and none with integers.
    """

    quantizer: Quantizer
    costs: Costs | None
    _parts: list[Part] = field(init=False)

    def __post_init__(self) -> None:
        graph, able = self.quantizer.graph, self.quantizer.candidates.names
        self._layers = {
            node.outputs[0]: node
            for node in graph.nodes
            if is_layer(node.op) and node.outputs[0] in able
        }
        self._writers = {name: node for node in graph.nodes for name in node.outputs}
        self._order = {node.outputs[0]: place for place, node in enumerate(graph.nodes)}
        if self.costs is None:
            self._parts = [Part((name,), 1.0, 0.0) for name in self._layers]
        else:
            self._parts = list(self.costs.parts)
        self._units = [
            tuple(name for name in part.nodes if name in self._layers) for part in self._parts
        ]
        self._units = [unit for unit in self._units if unit]

    def integers(self, kept: Collection[str]) -> list[str]:
        """Return the layers in integers where these stay float."""
        chosen = self.quantizer.candidates.place(kept).nodes
        return [name for name in self._layers if name in chosen]

    def seconds(self, kept: Collection[str]) -> float:
        """Return what a run is expected to take where these layers stay float."""
        placement = self.quantizer.candidates.place(kept)
        chosen = placement.nodes
        total = sum(
            part.integer_s if chosen.issuperset(self._able(part)) else part.float_s
            for part in self._parts
        )
        if self.costs is None:
            return total
        turned = {
            name
            for name in placement.values
            if name not in self._writers or self._writers[name].outputs[0] not in chosen
        }
        for node in self.quantizer.graph.nodes:
            if node.outputs[0] not in chosen:
                turned.update(
                    name
                    for name in node.inputs
                    if name in placement.values and name in self._writers
                )
        return total + sum(
            self.costs.conversion_s(self.costs.sizes.get(name, 0)) for name in turned
        )

    def _able(self, part: Part) -> list[str]:
        """Return the nodes that decide whether a part is integers; without any it never is."""
        names = [name for name in part.nodes if name in self.quantizer.candidates.names]
        return names or [""]

    def slow(self) -> tuple[str, ...]:
        """Return the layers that take no less time in integers, with the conversions round them."""
        kept: tuple[str, ...] = ()
        if self.costs is None:
            return kept
        now = self.seconds(kept)
        while True:
            tried = [(self.seconds((*kept, *move)), move) for move in self._moves(kept)]
            if not tried or min(tried)[0] > (1 - _WORTH) * now:
                return kept
            now, move = min(tried)
            kept = (*kept, *move)

    def orders(self, kept: tuple[str, ...], alone: Mapping[str, float]) -> list[tuple[str, ...]]:
        """Return which layers stay float, more and more of them, the worst bargains first.

        The last has one unit of layers in integers, or one run of them.
        """
        found = [kept]
        now = self.seconds(kept)
        while moves := self._moves(kept):
            bargains: list[tuple[float, tuple[str, ...], float]] = []
            for move in moves:
                after = self.seconds((*kept, *move))
                lost = sum(alone.get(name, 0.0) ** 2 for name in move)
                bargains.append(((after - now) / max(lost, 1e-30), move, after))
            _, move, now = min(bargains)
            kept = (*kept, *move)
            if not self.integers(kept):
                return found
            found.append(kept)
        return found

    def _moves(self, kept: Collection[str]) -> list[tuple[str, ...]]:
        """Return what may become float next: units of layers, and whole runs of them."""
        left = set(self.integers(kept))
        units = [unit for unit in self._units if left.issuperset(unit)]
        runs: dict[str, list[str]] = {}
        for name, root in self._runs(left).items():
            runs.setdefault(root, []).append(name)
        whole = [tuple(run) for run in runs.values()]
        return list(dict.fromkeys([*units, *whole]))

    def _runs(self, left: Collection[str]) -> dict[str, str]:
        """Return these layers, each with the first layer of the run of integers it belongs to."""
        able = self.quantizer.candidates.names
        roots: dict[str, str] = {}

        def root(name: str) -> str:
            while roots.setdefault(name, name) != name:
                name = roots[name]
            return name

        for node in self.quantizer.graph.nodes:
            y = node.outputs[0]
            if y not in able or (y in self._layers and y not in left):
                continue
            for place in data_inputs(node):
                writer = self._writers.get(node.inputs[place])
                before = writer.outputs[0] if writer is not None else ""
                if before in able and (before not in self._layers or before in left):
                    first, second = sorted((root(before), root(y)), key=self._order.__getitem__)
                    roots[second] = first
        return {name: root(name) for name in left}

    def choices(
        self, kept: Collection[str], slow: Collection[str], alone: Mapping[str, float]
    ) -> tuple[LayerChoice, ...]:
        """Return what became of each layer, in running order."""
        part_of = {name: part for part in self._parts for name in part.nodes}
        whole = set(self.integers(kept))
        found: list[LayerChoice] = []
        for name, node in self._layers.items():
            part = part_of[name]
            timed = self.costs is not None
            if name in whole:
                why = ""
            elif name in slow and part.integer_s >= part.float_s:
                why = "no faster in int8"
            elif name in slow:
                why = "conversions would cost more"
            elif timed:
                why = "loses most for its time"
            else:
                why = "loses most"
            found.append(
                LayerChoice(
                    name=node.label,
                    integer=name in whole,
                    noise=alone.get(name),
                    float_ms=part.float_s * 1e3 if timed else None,
                    integer_ms=part.integer_s * 1e3 if timed else None,
                    together=len([each for each in part.nodes if each in self._layers]),
                    why=why,
                )
            )
        return tuple(found)
