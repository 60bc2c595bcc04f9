"""A histogram of a value's numbers that does not need their range beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from palmkit.engine.ir import Array

BINS = 8192


def _empty() -> Array:
    return np.zeros(BINS, np.int64)


@dataclass
class Histogram:
    """Counts in equal bins over -limit..limit; zeros are counted apart.

    limit: a power of two. It doubles when a number lies beyond it, and pairs of bins merge, so that
    the counts do not depend on the order of the numbers.
    """

    limit: float = 0.0
    counts: Array = field(default_factory=_empty)
    zeros: int = 0

    def add(self, values: Array) -> None:
        """Count finite float32 numbers."""
        flat = values.reshape(-1)
        if not flat.size:
            return
        greatest = max(float(flat.max()), -float(flat.min()))
        zeros = flat.size - int(np.count_nonzero(flat))
        self.zeros += zeros
        if not greatest:
            return
        needed = 2.0 ** math.ceil(math.log2(greatest))
        if not self.limit:
            self.limit = needed
        while self.limit < needed:
            self._double()
        # Times a power of two is exact in float64, so that equal numbers share a bin.
        place = np.floor(flat * np.float64(BINS // 2 / self.limit))
        counts = np.bincount(place.astype(np.int64) + BINS // 2, minlength=BINS)
        # The limit itself belongs to the last bin.
        counts[BINS - 1] += counts[BINS:].sum()
        counts[BINS // 2] -= zeros
        self.counts += counts[:BINS]

    def _double(self) -> None:
        pairs = self.counts.reshape(-1, 2).sum(1)
        self.counts = _empty()
        self.counts[BINS // 4 : BINS // 4 + BINS // 2] = pairs
        self.limit *= 2

    @property
    def centres(self) -> Array:
        """Return the middle of each bin, float64[BINS]."""
        return (np.arange(BINS) + 0.5) * (2 * self.limit / BINS) - self.limit

    @property
    def total(self) -> int:
        """How many numbers were counted, including zeros."""
        return int(self.counts.sum()) + self.zeros
