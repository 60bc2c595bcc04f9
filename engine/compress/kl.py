"""The range whose 256 levels lose the least information."""

from __future__ import annotations

import numpy as np

from palmkit.engine.compress.histogram import BINS
from palmkit.engine.compress.observe import Observation
from palmkit.engine.ir import Array

LEVELS = 256
_TRIALS = 96


def kl_range(seen: Observation) -> tuple[float, float]:
    """Return the range with the least Kullback-Leibler divergence of the quantized numbers.

    After Migacz 2017, 8-bit Inference with TensorRT: numbers beyond a threshold count at the
    threshold, the rest is spread evenly over each level. Here both ends of a value that takes both
    signs share one threshold, as far as it reaches there; zeros, which have a level of their own,
    do not count.
    """
    histogram = seen.histogram
    half = BINS // 2
    reach = _reach(histogram.counts)
    if reach <= LEVELS:
        return seen.low, seen.high
    has_negative, has_positive = (bool(part.any()) for part in np.split(histogram.counts, 2))
    trials = np.unique(np.geomspace(LEVELS, reach, _TRIALS).round().astype(int))
    losses = [
        _divergence(histogram.counts, half - t * has_negative, half + t * has_positive)
        for t in trials.tolist()
    ]
    width = 2 * histogram.limit / BINS
    threshold = int(trials[int(np.argmin(losses))]) * width
    return max(seen.low, -threshold), min(seen.high, threshold)


def _reach(counts: Array) -> int:
    """Return how many bins the farthest number is from the middle."""
    used = np.flatnonzero(counts)
    if not used.size:
        return 0
    half = BINS // 2
    return max(half - int(used[0]), int(used[-1]) + 1 - half)


def _divergence(counts: Array, first: int, last: int) -> float:
    """Return the divergence of counts saturated to bins first..last from LEVELS even steps."""
    inside = counts[first:last].astype(np.float64)
    true = inside.copy()
    true[0] += counts[:first].sum()
    true[-1] += counts[last:].sum()
    level = np.arange(last - first) * LEVELS // (last - first)
    used = inside > 0
    sums = np.bincount(level, inside, LEVELS)
    places = np.bincount(level, used, LEVELS)
    spread = np.where(used, (sums / np.maximum(places, 1))[level], 0.0)
    total, spread_total = true.sum(), spread.sum()
    if not spread_total:
        return float("inf")
    p, q = true / total, spread / spread_total
    some = p > 0
    return float((p[some] * np.log(p[some] / np.maximum(q[some], 1e-12))).sum())
