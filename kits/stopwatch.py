"""Times of the stages of a frame, and of frames."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import accumulate


class Stopwatch:
    """Times the stages of a frame.

    stages_ms: the time of each stage, in their order.
    """

    def __init__(self) -> None:
        """Start without any stage."""
        self.stages_ms: dict[str, float] = {}
        self._start = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time a with block; blocks of the same name add up."""
        start = time.perf_counter()
        try:
            yield
        finally:
            passed_ms = (time.perf_counter() - start) * 1e3
            self.stages_ms[name] = self.stages_ms.get(name, 0.0) + passed_ms

    def rest(self, name: str) -> None:
        """Add a stage for the time since the start outside of all others."""
        passed_ms = (time.perf_counter() - self._start) * 1e3
        self.stages_ms[name] = passed_ms - sum(self.stages_ms.values())


class Times:
    """Times of any number of frames, to a tenth of a millisecond.

    It holds a count for each tenth, so that it hardly grows while frames go on.
    """

    def __init__(self) -> None:
        """Start without frames."""
        self._tenths: Counter[int] = Counter()

    def __len__(self) -> int:
        """Return how many frames there are."""
        return self._tenths.total()

    def add(self, passed_ms: float) -> None:
        """Count one more frame."""
        self._tenths[round(passed_ms * 10)] += 1

    def median_ms(self) -> float:
        """Return the median of all frames, of which there is at least one."""
        tenths, count = sorted(self._tenths), len(self)
        below = list(accumulate(self._tenths[each] for each in tenths))
        middles = (tenths[bisect_right(below, place)] for place in ((count - 1) // 2, count // 2))
        return sum(middles) / 20
