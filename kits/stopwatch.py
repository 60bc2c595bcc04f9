"""How long the stages of a frame take, and how long frames do."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from itertools import accumulate


class Stopwatch:
    """Times the stages of a frame. stages_ms: by stage what it took, in their order."""

    def __init__(self) -> None:
        """Start; no stage is timed yet."""
        self.stages_ms: dict[str, float] = {}
        self._start = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time what happens inside; more of the same name adds up."""
        start = time.perf_counter()
        try:
            yield
        finally:
            passed_ms = (time.perf_counter() - start) * 1e3
            self.stages_ms[name] = self.stages_ms.get(name, 0.0) + passed_ms

    def rest(self, name: str) -> None:
        """Make one more stage of what passed since the start outside of all others."""
        passed_ms = (time.perf_counter() - self._start) * 1e3
        self.stages_ms[name] = passed_ms - sum(self.stages_ms.values())


class Times:
    """How long any number of frames took, to a tenth of a millisecond.

    It holds a count for each tenth, so that it hardly grows while frames go on.
    """

    def __init__(self) -> None:
        """No frames yet."""
        self._tenths: Counter[int] = Counter()

    def __len__(self) -> int:
        """How many frames."""
        return self._tenths.total()

    def add(self, passed_ms: float) -> None:
        """Count one more frame."""
        self._tenths[round(passed_ms * 10)] += 1

    def median_ms(self) -> float:
        """The median of all frames, of which there is one at least."""
        tenths, count = sorted(self._tenths), len(self)
        below = list(accumulate(self._tenths[each] for each in tenths))
        middles = (tenths[bisect_right(below, place)] for place in ((count - 1) // 2, count // 2))
        return sum(middles) / 20
