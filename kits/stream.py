"""A worker thread that always takes the newest frame."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Frame = TypeVar("Frame")


class Stream(Generic[Frame]):
    """Hands frames to a function in a thread of its own.

    At most one frame waits while another is worked on; a newer one takes its place. So memory
    and delay stay bounded however fast frames come.
    """

    def __init__(
        self, work: Callable[[Frame], None], on_error: Callable[[Exception], None] | None
    ) -> None:
        """Start the thread.

        work: called with each frame, never twice at a time.
        on_error: called in the thread with what `work` raised; left out, the next put or close
        raises it.
        """
        self._work = work
        self._on_error = on_error
        self._error: Exception | None = None
        self._changed = threading.Condition()
        self._waiting: list[Frame] = []
        self._closed = False
        self._dropped = 0
        self._thread = threading.Thread(target=self._loop, name="palmkit stream", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many frames gave way to a newer one."""
        return self._dropped

    def put(self, frame: Frame) -> None:
        """Leave a frame to be worked on; returns at once."""
        self._raise_error()
        with self._changed:
            self._dropped += len(self._waiting)
            self._waiting = [frame]
            self._changed.notify()

    def close(self) -> None:
        """Finish the frames taken, then end the thread; it may be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        # The callback runs in the thread, and may be what closes it.
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._raise_error()

    def _raise_error(self) -> None:
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                frame = self._waiting.pop()
            try:
                self._work(frame)
            except Exception as error:  # It reaches the user, in another thread.
                self._report(error)

    def _report(self, error: Exception) -> None:
        if self._on_error is not None:
            try:
                return self._on_error(error)
            except Exception as worse:
                error = worse
        with self._changed:
            self._error = self._error or error
