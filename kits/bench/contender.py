"""The common base of all contenders at a job."""

from __future__ import annotations

import os
import sys
from typing import ClassVar

import numpy as np

from palmkit.engine.bench.engines.engine import Engine, Job, Run
from palmkit.engine.ir import Array


class Contender(Engine):
    """Runs on the job's frame; it may use as many cores as threads."""

    forms: ClassVar[tuple[str, ...]] = ("frame",)

    def limit(self, threads: int) -> None:
        """Keep this process on `threads` cores, as some libraries cannot be told how many."""
        if sys.platform == "linux":
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    def found(self, count: int) -> list[tuple[str, Array]]:
        """Return how many things were found, as an engine's output."""
        return [("found", np.array([count], np.float32))]

    def open(self, job: Job) -> Run:
        """Make the contender ready."""
        raise NotImplementedError
