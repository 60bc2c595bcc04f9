"""Choosing the range of a value that its 256 levels cover: one function a method.

Each takes an Observation and returns (low, high); numbers outside saturate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from palmkit.engine.compress.admm import admm_range
from palmkit.engine.compress.histogram import BINS
from palmkit.engine.compress.kl import kl_range
from palmkit.engine.compress.observe import Observation
from palmkit.engine.compress.placement import Placement
from palmkit.engine.ir import Array

Range = tuple[float, float]
PERCENTILE = 99.99
MOMENTUM = 0.9


def min_max(seen: Observation) -> Range:
    """Return the range from the minimum to the maximum."""
    return seen.low, seen.high


def percentile(seen: Observation, share: float = PERCENTILE) -> Range:
    """Return the range without 100 - share per cent of the numbers, half of them at either end."""
    counts = seen.histogram.counts.astype(np.float64)
    counts[BINS // 2] += seen.histogram.zeros
    sums: Array = np.cumsum(counts)
    total = float(sums[-1])
    if not total or not seen.histogram.limit:
        return min_max(seen)
    cut = (100 - share) / 200 * total
    width = 2 * seen.histogram.limit / BINS
    first = int((sums <= cut).sum())
    last = int((sums < total - cut).sum())
    low, high = first * width - seen.histogram.limit, (last + 1) * width - seen.histogram.limit
    return max(low, seen.low), min(high, seen.high)


def moving_average(seen: Observation, momentum: float = MOMENTUM) -> Range:
    """Return the exponential moving averages of each sample's minimum and maximum (EMA).

    Jacob et al. 2018, Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference, section 3.1.
    """
    low, high = seen.lows[0], seen.highs[0]
    for least, greatest in zip(seen.lows[1:], seen.highs[1:], strict=True):
        low = momentum * low + (1 - momentum) * least
        high = momentum * high + (1 - momentum) * greatest
    return low, high


METHODS: Mapping[str, Callable[[Observation], Range]] = {
    "min_max": min_max,
    "percentile": percentile,
    "moving_average": moving_average,
    "kl": kl_range,
    "admm": admm_range,
}


def ranges_of(
    placement: Placement, seen: Mapping[str, Observation], method: str
) -> dict[str, Range]:
    """Return the range of each observed value by a method; graph inputs keep their whole range."""
    return {
        name: (min_max if name in placement.raw else METHODS[method])(each)
        for name, each in seen.items()
    }
