"""The end of the process finds no thread within native code.

Python stops daemon threads as it ends. Until 3.14 it unwinds them where they wait for its lock, and
C++ code that is unwound so, such as OpenCV's, ends the whole process by SIGABRT. So Python's end
waits for the calls that are under way, and holds back those that begin after.
"""

from __future__ import annotations

import atexit
import functools
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from palmkit.kits.forking import renewed_in_children

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Python's end waits for calls no longer than this, and they for it: should another function of
# atexit wait for a thread, that thread goes on then.
MOST_S = 2.0
_LOOK_EVERY_S = 0.002


class _Calls:
    """The calls that are under way, without a lock: each step is one that Python does at once."""

    def __init__(self) -> None:
        # The thread of each call, once for each that it is within.
        self.threads: list[int] = []
        self.ended_s: float | None = None
        atexit.register(self.end)
        renewed_in_children(self, _Calls._renew)

    def hold(self, thread: int) -> None:
        """Called behind `threads.append(thread)`: stay here while Python ends."""
        if self.ended_s is None or thread == threading.main_thread().ident:
            return
        if self.threads.count(thread) > 1:
            return
        self.threads.remove(thread)
        time.sleep(max(self.ended_s + MOST_S - time.monotonic(), 0))
        self.threads.append(thread)

    def end(self) -> None:
        """Wait for the calls of other threads."""
        self.ended_s = time.monotonic()
        me = threading.get_ident()
        while any(thread != me for thread in tuple(self.threads)):
            if time.monotonic() > self.ended_s + MOST_S:
                break
            time.sleep(_LOOK_EVERY_S)

    def _renew(self) -> None:
        """The forked child has the thread that forked alone."""
        me = threading.get_ident()
        self.threads[:] = [me] * self.threads.count(me)


_calls = _Calls()


def finished(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function that runs native code: Python's end waits for it."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        threads, thread = _calls.threads, threading.get_ident()
        threads.append(thread)
        try:
            if _calls.ended_s is not None:
                _calls.hold(thread)
            return function(*args, **kwargs)
        finally:
            threads.remove(thread)

    return call
