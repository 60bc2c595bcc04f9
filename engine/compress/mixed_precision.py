"""Quantization with an error limit: some sensitive layers stay float."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from palmkit.engine.compress.observe import checked_samples
from palmkit.engine.compress.quantize import Settings, quantize
from palmkit.engine.compress.sensitivity import OutputNoise, sensitivities
from palmkit.engine.errors import QuantizationError
from palmkit.engine.ir import Array, Graph


@dataclass(frozen=True)
class Mixed:
    """A quantized graph with some float layers.

    kept: the layers that stay float, the most sensitive first.
    error: the graph's error, by the caller's measure.
    """

    graph: Graph
    kept: tuple[str, ...]
    error: float


def quantize_within(
    graph: Graph,
    samples: Iterable[Mapping[str, Array]],
    limit: float,
    error: Callable[[Graph], float] | None = None,
    settings: Settings | None = None,
) -> Mixed:
    """Quantize with as few float layers as hold an error limit.

    Layers stay float in the order of their `sensitivities`; their number is found by bisection.
    error: a measure of a graph, less is better, such as the loss on the task; left out, OutputNoise
    on the samples.
    Raises QuantizationError if even a single integer layer is over the limit, with the least error
    that was reached; else as quantize does.
    """
    found = checked_samples(graph, samples)
    measured = error or OutputNoise(graph, found)
    best = Mixed(quantize(graph, found, settings=settings), (), 0.0)
    best = Mixed(best.graph, (), measured(best.graph))
    if best.error <= limit:
        return best
    ranked = sensitivities(graph, found, settings)
    order = sorted(ranked, key=lambda name: -ranked[name])
    low, high = 0, len(order)
    least, within = best.error, None
    while high - low > 1:
        count = (low + high) // 2
        tried = quantize(graph, found, settings=settings, keep=order[:count])
        got = measured(tried)
        least = min(least, got)
        if got <= limit:
            high, within = count, Mixed(tried, tuple(order[:count]), got)
        else:
            low = count
    if within is None:
        raise QuantizationError(
            f"error limit: expected at most {limit:g}, reached {least:g} with "
            f"{len(order) - low} of {len(order)} layers in integers"
        )
    return within
