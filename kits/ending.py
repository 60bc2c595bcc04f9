"""Neither the end of the process nor a fork finds a thread within native code.

Python stops daemon threads as it ends. Until 3.14 it unwinds them where they wait for its lock, and
C++ code that is unwound so, such as OpenCV's, ends the whole process by SIGABRT. A forked child has
one thread alone: what others were within, such as an import, never ends there. So both wait for the
calls that are under way, and hold back those that begin meanwhile.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import ParamSpec, TypeVar

# Its hook for forks is to be registered before the one here.
import_module("palmkit.engine.forks")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
# Neither waits for calls any longer, nor they for it: where the thread that forks, or another
# function of atexit, waits for one of theirs, they go on then.
MOST_S = 2.0
_LOOK_EVERY_S = 0.001


class _Calls:
    """The calls that are under way, without a lock: each change is one that Python does at once."""

    def __init__(self) -> None:
        # The thread of each call, once for each that it is within.
        self.threads: list[int] = []
        # Whether calls that begin are held, of the threads but these, and until when.
        self.are_held = False
        self._holders: list[int] = []
        self._until_s = 0.0
        atexit.register(self._begin)
        # What is registered last waits first, before the gate of forks.py shuts: a call under way
        # may still want to plan.
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._begin, after_in_parent=self._end, after_in_child=self._end_in_child
            )

    def hold(self, thread: int) -> None:
        """Stay here as long as calls are held; called behind `threads.append(thread)`."""
        if thread in self._holders or self.threads.count(thread) > 1:
            return
        self.threads.remove(thread)
        while self.are_held and time.monotonic() < self._until_s:
            time.sleep(_LOOK_EVERY_S)
        self.threads.append(thread)

    def _begin(self) -> None:
        """Hold calls that begin, and wait for those under way in other threads."""
        me = threading.get_ident()
        self._until_s = time.monotonic() + MOST_S
        self._holders.append(me)
        self.are_held = True
        while any(thread not in self._holders for thread in tuple(self.threads)):
            if time.monotonic() > self._until_s:
                break
            time.sleep(_LOOK_EVERY_S)

    def _end(self) -> None:
        self._holders.remove(threading.get_ident())
        self.are_held = bool(self._holders)

    def _end_in_child(self) -> None:
        me = threading.get_ident()
        self.threads[:] = [me] * self.threads.count(me)
        self._holders.clear()
        self.are_held = False


_calls = _Calls()


def finished(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A function that runs native code: the end of Python and forks wait for it."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        threads, thread = _calls.threads, threading.get_ident()
        threads.append(thread)
        try:
            if _calls.are_held:
                _calls.hold(thread)
            return function(*args, **kwargs)
        finally:
            threads.remove(thread)

    return call
