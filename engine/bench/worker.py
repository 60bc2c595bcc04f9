"""An engine's process: python -m palmkit.engine.bench.worker ENGINE FOLDER PIPE.

It answers requests that come through a pipe it inherited, one after the other, until the pipe is
closed. What libraries print goes where the parent has put standard output, and what they leave
in the current folder goes to FOLDER.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import time
from dataclasses import replace
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np

from palmkit.engine.bench.engines import Job, Run, find
from palmkit.engine.bench.measurement import Opened, memory_in_use, peak_memory, reset_peak_memory
from palmkit.engine.bench.pipes import connection
from palmkit.engine.errors import PalmError

if TYPE_CHECKING:
    from pathlib import Path

FIRST_RUNS = 4
LEAST_RUNS = 3
WARM_UP_SHARE = 0.2
MOST_RUNS = 20_000
_PR_SET_PDEATHSIG = 1
_LONGEST_REASON = 300


class Worker:
    """The requests by name, and what they do."""

    def __init__(self, engine: str) -> None:
        """Make the engine, without importing its library yet."""
        self._engine = find(engine)
        self._run: Run = list

    def prepare(self, job: Job) -> Path:
        """Convert the model for the engine if needed."""
        return self._engine.prepare(job)

    def open(self, job: Job) -> Opened:
        """Open the file up to first results, and measure time and memory."""
        self._engine.import_library()
        # Arrays that come through a pipe are read-only, which OpenCV and OpenVINO refuse.
        inputs = {name: np.array(value) for name, value in job.inputs.items()}
        job = replace(job, inputs=inputs)
        gc.collect()
        before = memory_in_use()
        reset_peak_memory()
        start = time.perf_counter()
        self._run = self._engine.open(job)
        outputs = self._run()
        seconds = time.perf_counter() - start
        # Results are copied: they may lie in memory that the next run writes.
        outputs = [(name, np.array(value)) for name, value in outputs]
        for _ in range(FIRST_RUNS):
            self._run()
        after, most = memory_in_use(), peak_memory()
        return Opened(
            version=self._engine.version(),
            seconds=seconds,
            memory_bytes=None if before is None or after is None else max(0, after - before),
            peak_memory_bytes=None if before is None or most is None else max(0, most - before),
            outputs=outputs,
        )

    def times(self, seconds: float) -> list[float]:
        """Return the seconds of each run during about `seconds`.

        It warms up first: caches hold other data, and threads may share a core.
        """
        run, taken, total = self._run, list[float](), 0.0
        start = time.perf_counter()
        run()
        while time.perf_counter() - start < seconds * WARM_UP_SHARE:
            run()
        while len(taken) < LEAST_RUNS or (total < seconds and len(taken) < MOST_RUNS):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
            total += taken[-1]
        return taken


def serve(engine: str, number: int) -> None:
    """Answer (what, arguments) by (True, result) or (False, reason), until the pipe closes."""
    _end_with_parent()
    pipe = connection(number)
    worker = Worker(engine)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            what, arguments = pipe.recv()
            try:
                answer = True, getattr(worker, what)(*arguments)
            except Exception as error:  # errors of any kind from any library
                answer = False, _reason(error)
            pipe.send(answer)


def _reason(error: Exception) -> str:
    """Return the error's message shortened to one line."""
    text = shorten(str(error), _LONGEST_REASON, placeholder=" ...")
    says_enough = isinstance(error, RuntimeError | PalmError)
    return text if says_enough and text else f"{type(error).__name__}: {text}"


def _end_with_parent() -> None:
    """Have the kernel end this process when its parent dies, even while stopped (Linux)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    # Not set by the parent: its module paths may be relative to its current folder.
    os.chdir(sys.argv[2])
    serve(sys.argv[1], int(sys.argv[3]))
