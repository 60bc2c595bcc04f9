"""A log that cannot be flooded from outside: limits on lines a minute, in all and of each kind."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter

PERIOD_S = 60.0
MOST_LINES, MOST_OF_A_KIND = 200, 5
MOST_CHARACTERS = 8192


class LimitedLog(logging.Handler):
    """Writes to standard error, and says how many lines it dropped."""

    def __init__(
        self,
        period_s: float = PERIOD_S,
        most_lines: int = MOST_LINES,
        most_of_a_kind: int = MOST_OF_A_KIND,
    ) -> None:
        """Set the limits.

        most_lines: in each period. most_of_a_kind: of these, lines from one place in the code.
        """
        super().__init__()
        self._period_s, self._most, self._most_of_a_kind = period_s, most_lines, most_of_a_kind
        self._ends = 0.0
        self._seen: Counter[tuple[str, int]] = Counter()
        self._written = self._dropped = 0
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, or count it as dropped."""
        # Callers hold the handler's lock.
        if (now := time.monotonic()) >= self._ends:
            self._begin(now)
        place = (record.pathname, record.lineno)
        self._seen[place] += 1
        if self._seen[place] <= self._most_of_a_kind and self._written < self._most:
            self._written += 1
            self._write(record)
            return
        self._dropped += 1
        if self._timer is None:
            # Otherwise the count would only show with the next line.
            self._timer = threading.Timer(self._ends - now, self._tell)
            self._timer.daemon = True
            self._timer.start()

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or lines, preferring the end to the middle where they are long."""
        text = super().format(record)
        if len(text) <= MOST_CHARACTERS:
            return text
        half = MOST_CHARACTERS // 2
        return f"{text[:half]}\n... {len(text) - 2 * half} characters ...\n{text[-half:]}"

    def close(self) -> None:
        """Write how many lines were dropped last."""
        self._tell()
        super().close()

    def _tell(self) -> None:
        with self.lock or threading.RLock():
            self._begin(time.monotonic())

    def _begin(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._ends = now + self._period_s
        self._seen.clear()
        self._written = 0
        if dropped := self._dropped:
            self._dropped = 0
            text = f"{dropped} more lines were dropped in the last {self._period_s:g} s"
            self._write(logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (), None))

    def _write(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            # The disk is full, or the stream is closed; there is nowhere to report it.
            return
