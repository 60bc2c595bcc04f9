"""Threads of a kit, in which it works for coroutines that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from palmkit.engine.forks import importing, renewed_in_children
from palmkit.kits import opencv

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

Result = TypeVar("Result")


class Threads:
    """Runs calls in at most so many threads, begun in the order in which they came.

    Threads are made when there is work, and end when this is closed or dropped. A forked child has
    threads of its own.
    """

    def __init__(self, count: int) -> None:
        """Set the number of threads."""
        self._count = count
        self._is_closed = False
        renewed_in_children(self, Threads._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, or raise what it raises, once a thread has done it.

        Where the waiting is cancelled, work that has not begun never does; what has begun goes on.
        Raises RuntimeError after close.
        """
        with importing:
            from asyncio import wrap_future
            from contextvars import copy_context
        with self._lock:
            doing = self._open().submit(copy_context().run, work)
        return await wrap_future(doing)

    def _open(self) -> ThreadPoolExecutor:
        if self._is_closed:
            raise RuntimeError("the threads are closed")
        if self._executor is None:
            with importing:
                from concurrent.futures import ThreadPoolExecutor
            self._executor = ThreadPoolExecutor(self._count, "palmkit", _begin)
        return self._executor

    def close(self) -> None:
        """End the threads behind what they were given, without waiting for them."""
        self._is_closed = True
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
                self._executor = None


class _Ending:
    """Held by a thread: when the thread ends, a fork has to wait until it is gone."""

    def __del__(self) -> None:
        opencv.leave()


_ending = threading.local()


def _begin() -> None:
    _ending.held = _Ending()
