"""The background work of a client: one thread that waits, works and ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

Key: TypeAlias = tuple[str, str]


class Background:
    """Does work for keys, such as a model and its channel, when it is due; any thread may ask."""

    def __init__(self, work: Callable[[list[Key]], None], ending: threading.Event) -> None:
        """Start without a thread.

        work: called in the thread with the keys that are due. ending: once it is set, and `stop` is
        called, nothing new begins.
        """
        self._work, self._ending = work, ending
        self._changed = threading.Condition()
        # The time at which each key is due, by time.monotonic.
        self._due: dict[Key, float] = {}
        self._thread: threading.Thread | None = None

    def ask(self, keys: Iterable[Key], in_s: float = 0.0) -> None:
        """Have the work done for keys in so many seconds, or earlier if asked for before."""
        due = time.monotonic() + in_s
        with self._changed:
            for key in keys:
                self._due[key] = min(due, self._due.get(key, due))
            self._changed.notify()
            if self._due and (self._thread is None or not self._thread.is_alive()):
                thread = threading.Thread(target=self._loop, name="palmkit delivery", daemon=True)
                # At the end of the process no thread can be started, and none is needed.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def stop(self, until_s: float) -> None:
        """Wait for the thread to end, but not beyond until_s (time.monotonic)."""
        thread = self._thread
        with self._changed:
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(max(0.0, until_s - time.monotonic()))

    def _loop(self) -> None:
        while keys := self._next():
            self._work(keys)

    def _next(self) -> list[Key]:
        """Wait for keys that are due and return them; none means that the thread is to end."""
        with self._changed:
            while self._due and not self._ending.is_set():
                now = time.monotonic()
                if keys := sorted(key for key, due in self._due.items() if due <= now):
                    for key in keys:
                        del self._due[key]
                    return keys
                self._changed.wait(min(self._due.values()) - now)
            self._thread = None
            return []
