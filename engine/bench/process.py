"""The parent's side of an engine's process."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from palmkit.engine.bench import pipes
from palmkit.engine.bench.engines import Job, Refusal
from palmkit.engine.bench.measurement import Opened

OPEN_LIMIT_S = 120.0
PREPARE_LIMIT_S = 330.0
SLICE_LIMIT_S = 60.0
_LAST_WORDS = 200


class EngineProcess:
    """A process with one engine in it, to be closed after use.

    Between requests it can be stopped, so that threads which wait by spinning disturb nobody. Every
    request raises Refusal, with the reason, if the engine refuses, dies, or takes too long; after
    the latter two the process is gone.
    """

    def __init__(self, engine: str) -> None:
        """Start the process.

        engine: the engine's name or class, as for engines.find.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._folder = tempfile.TemporaryDirectory(prefix="palmkit-bench-")
        command = (sys.executable, "-m", "palmkit.engine.bench.worker", engine, self._folder.name)
        self._process, self._pipe = pipes.start(command, self._log)

    def prepare(self, job: Job, limit_s: float = PREPARE_LIMIT_S) -> Path:
        """Return the file that the engine is to open."""
        path: Path = self._ask("prepare", job, limit_s=limit_s)
        return path

    def open(self, job: Job, limit_s: float = OPEN_LIMIT_S) -> Opened:
        """Open a model and run it."""
        opened: Opened = self._ask("open", job, limit_s=limit_s)
        return opened

    def times(self, seconds: float, limit_s: float = SLICE_LIMIT_S) -> list[float]:
        """Return the seconds of each run during about `seconds`."""
        taken: list[float] = self._ask("times", seconds, limit_s=limit_s + seconds)
        return taken

    def stop(self) -> None:
        """Stop the process until `go_on`; return when all its threads stand still."""
        if self._process.poll() is None:
            pipes.stop(self._process)

    def go_on(self) -> None:
        """Resume the process after `stop`."""
        if self._process.poll() is None:
            pipes.go_on(self._process)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def close(self) -> None:
        """End the process, with all that it has started."""
        self._pipe.close()
        pipes.end(self._process)
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    def _ask(self, what: str, *arguments: object, limit_s: float) -> Any:
        try:
            self._pipe.send((what, arguments))
            if not self._pipe.poll(limit_s):
                raise Refusal(f"no answer within {limit_s:.0f} s")
            is_done, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Refusal(self._last_words()) from None
        if not is_done:
            raise Refusal(answer)
        return answer

    def _last_words(self) -> str:
        """Return how it died, and the last line that it wrote."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "its process closed the line"
        how = f"ended with {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by {signal.Signals(-code).name}"
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        said = f": {lines[-1][:_LAST_WORDS]}" if lines else ""
        return f"its process {how}{said}"
