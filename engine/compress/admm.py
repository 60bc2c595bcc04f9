"""Scales by alternating between the levels and the scale: the discrete step of ADMM.

Leng, Li, Zhu, Jin 2018, Extremely Low Bit Neural Network: Squeeze the Last Bit Out with ADMM, split
the training of a quantized network in three by the alternating direction method of multipliers: a
proximal step on the float weights, a projection of weights + multipliers on a scale times integers,
and the update of the multipliers. The projection, min over (scale, levels) of
|values - scale * levels|^2, has no closed form; section 3.2 alternates: with the scale given the
levels are rounded and saturated, with the levels given the scale is a least-squares quotient.

MNN uses that projection alone, without training, for weights and for activations
(tools/quantization: QuantizeWeightADMM, computeScaleADMM). This is done here, too, for weights
channel by channel, for activations on the histogram. The alternation only finds the nearest valley,
so it begins where the best of a row of thresholds is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.ir import Array

if TYPE_CHECKING:
    from palmkit.engine.compress.observe import Observation

_ROUNDS = 40
# Initial thresholds as shares of the largest number.
_THRESHOLDS: tuple[float, ...] = tuple(0.95**step for step in range(64))
_ROW_THRESHOLDS = _THRESHOLDS[:24:2]


def admm_range(seen: Observation) -> tuple[float, float]:
    """Return the range of 256 levels with the least squared error over the histogram."""
    histogram = seen.histogram
    used = np.flatnonzero(histogram.counts)
    if not used.size:
        return seen.low, seen.high
    weights = histogram.counts[used].astype(np.float64)
    values = histogram.centres[used]
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    reach = max(-low, high)
    trials = [(max(low, -share * reach), min(high, share * reach)) for share in _THRESHOLDS]
    trials.sort(key=lambda trial: _range_error(values, weights, *trial))
    ends = [trials[0], *(_alternated(values, weights, *trial) for trial in trials[:3])]
    ends = [(max(first, low), min(last, high)) for first, last in ends]
    return min(ends, key=lambda end: _range_error(values, weights, *end))


def _alternated(values: Array, weights: Array, low: float, high: float) -> tuple[float, float]:
    for _ in range(_ROUNDS):
        scale = (high - low) / 255
        zero = round(-low / scale)
        levels = np.clip(np.rint(values / scale), -zero, 255 - zero)
        square = float((weights * levels * levels).sum())
        if not square:
            break
        fitted = float((weights * levels * values).sum()) / square
        if abs(fitted - scale) < 1e-7 * scale:
            break
        # Each end moves by the numbers that saturate there; the zero point follows.
        low, high = -zero * fitted, (255 - zero) * fitted
    return low, high


def _range_error(values: Array, weights: Array, low: float, high: float) -> float:
    scale = (high - low) / 255
    if not scale > 0:
        return float("inf")
    zero = round(-low / scale)
    levels = np.clip(np.rint(values / scale), -zero, 255 - zero)
    return float((weights * (values - scale * levels) ** 2).sum())


def projected_scales(rows: Array, most: int, rounds: int = _ROUNDS) -> Array:
    """Return the best scale for each row of float64[n, k], with levels -most..most: float64[n]."""
    greatest = np.abs(rows).max(1)
    best: Array = np.where(greatest > 0, greatest, 1.0) / most
    least = _row_errors(rows, best, most)
    for share in _ROW_THRESHOLDS:
        scale: Array = np.where(greatest > 0, greatest, 1.0) * share / most
        for _ in range(rounds):
            levels = np.clip(np.rint(rows / scale[:, None]), -most, most)
            square = (levels * levels).sum(1)
            fitted = (levels * rows).sum(1) / np.maximum(square, 1)
            following: Array = np.where(fitted > 0, fitted, scale)
            if np.allclose(following, scale, rtol=1e-7, atol=0):
                break
            scale = following
        error = _row_errors(rows, scale, most)
        best = np.where(error < least, scale, best)
        least = np.minimum(error, least)
    return best


def _row_errors(rows: Array, scale: Array, most: int) -> Array:
    levels = np.clip(np.rint(rows / scale[:, None]), -most, most)
    return np.asarray(((rows - levels * scale[:, None]) ** 2).sum(1))
