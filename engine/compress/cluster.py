"""Weights of few distinct values by k-means (S. Han et al.: Deep Compression, 2016)."""

from __future__ import annotations

import numpy as np

from palmkit.engine.errors import CompressionError
from palmkit.engine.ir import Array

_ROUNDS = 60


def clustered(weights: Array, count: int) -> Array:
    """Return float32 weights, each replaced by the nearest of at most `count` numbers; 0 stays 0.

    The numbers lie evenly between the smallest and the largest at first, as in the paper, and move
    to the mean of their members until nothing changes.
    Raises CompressionError for numbers that are not finite.
    """
    if count < 2:
        raise ValueError(f"count: expected 2 or more, got {count}")
    flat = weights.astype(np.float64).ravel()
    if not np.isfinite(flat).all():
        raise CompressionError("weights: expected finite numbers to cluster")
    ordered = np.sort(flat[flat != 0])
    has_zeros = ordered.size < flat.size
    centres = _centres(ordered, count - has_zeros)
    borders = (centres[1:] + centres[:-1]) / 2
    found = centres[np.searchsorted(borders, flat)] if centres.size else np.zeros_like(flat)
    result = np.where(flat == 0, 0.0, found).astype(np.float32)
    return result.reshape(weights.shape)


def _centres(ordered: Array, count: int) -> Array:
    """Return ascending centres for sorted numbers."""
    unique = np.unique(ordered)
    if unique.size <= count:
        return unique
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    centres: Array = ordered[0] + np.arange(count) * (
        (ordered[-1] - ordered[0]) / max(1, count - 1)
    )
    for _ in range(_ROUNDS):
        borders = (centres[1:] + centres[:-1]) / 2
        ends = np.concatenate([[0], np.searchsorted(ordered, borders), [ordered.size]])
        counts = np.diff(ends)
        moved = np.where(counts > 0, np.diff(sums[ends]) / np.maximum(counts, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres
