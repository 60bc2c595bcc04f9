"""How long the stages of a frame take."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager


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
