"""Background work: one thread, whose results arrive in the window's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

from PySide6.QtCore import QObject, Signal, Slot

Result = TypeVar("Result")
# How long `close` waits for the running job; one that hangs in a network is abandoned.
LEAVE_S = 1.5


class Background(QObject):
    """Does one job after another; belongs to the window's thread."""

    _over = Signal(object)

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        """Start the thread.

        name: the thread's name.
        """
        super().__init__(parent)
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_closed = False
        self._waiting = 0
        self._over.connect(self._tell)
        # A daemon: the process must not wait for a server that hangs.
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Return whether a job waits, runs, or has not been reported yet."""
        return self._waiting > 0

    def run(
        self,
        job: Callable[[], Result],
        done: Callable[[Result], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Do a job, then call `done` or `failed` with its outcome; neither after `close`."""
        if self._is_closed:
            return
        self._waiting += 1

        def work() -> None:
            try:
                result = job()
            except Exception as error:
                # Python deletes the name at the end of the clause.
                raised = error
                self._send(lambda: self._end(lambda: failed(raised)))
            else:
                self._send(lambda: self._end(lambda: done(result)))

        self._jobs.put(work)

    def report(self, call: Callable[[], None]) -> None:
        """Have something called in the window's thread, from a running job."""
        self._send(call)

    def close(self) -> None:
        """Drop waiting jobs; wait a moment for the running one."""
        self._is_closed = True
        self._jobs.put(None)
        self._thread.join(LEAVE_S)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._is_closed:
                job()

    def _send(self, call: Callable[[], None]) -> None:
        try:
            self._over.emit(call)
        except RuntimeError:  # Qt has already destroyed the window.
            self._is_closed = True

    def _end(self, tell: Callable[[], None]) -> None:
        self._waiting -= 1
        tell()

    @Slot(object)
    def _tell(self, call: Callable[[], None]) -> None:
        if not self._is_closed:
            call()
