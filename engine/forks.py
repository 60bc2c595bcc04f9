"""What a fork and the end of Python wait for, and what forked children make anew.

A forked child has one thread. Whatever other threads had locked stays locked there, including the
locks of modules that were being imported. And when Python ends it stops daemon threads: before 3.14
it unwinds their stacks where they wait for its lock, and C++ code that is unwound this way, such as
OpenCV's, ends the whole process by SIGABRT.

Both therefore close one gate. Calls that begin then wait in front of it, and both wait for the
calls that are already inside, each up to a time limit. The order does not depend on what is
imported:

* A fork closes the gate, one fork at a time. Then what was registered with `stopped_at_forks`
  stops, and the hooks of Python's own modules run: calls that are inside may still log. After the
  fork, what was stopped goes on in both processes. In the child the gate is open before that; last,
  everything registered with `renewed_in_children` is renewed, in the order of its registration. No
  thread of the child's Python is started before that.
* The end of Python runs the functions of atexit, the last registered first. They stop our threads,
  which may need the gate to stop. This module's function is the last of ours: it closes the gate,
  and then runs what was registered with `done_at_the_end`.

Code that needs both the gate and a lock enters the gate first: otherwise it might wait in front of
the gate while it holds a lock that a call inside needs.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, ParamSpec, TypeVar
from weakref import ReferenceType, ref

# Hooks before a fork run in the reverse order of their registration, those of logging behind ours.
import_module("logging")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Owner = TypeVar("Owner")
# Longer than loading and planning take. Who forks may itself hold what calls wait for.
LONGEST_FORK_S = 5.0
# Whoever waits for the end of a program is not to wait for a frame that never ends.
LONGEST_END_S = 2.0
_LOOK_EVERY_S = 0.001


class _Gate:
    """The calls that are under way, counted without a lock: Python makes each change atomically.

    A signal handler may fork while the main thread is anywhere, even inside these methods.
    """

    def __init__(self) -> None:
        # The thread of each call, once for each that it is within.
        self.within: list[int] = []
        self.is_closed = False
        # The threads that closed it: they pass, and nobody waits for their calls.
        self._closers: list[int] = []
        self._limit_s = 0.0

    def __enter__(self) -> None:
        """Begin a call, once the gate is open or the time limit is over."""
        thread = threading.get_ident()
        self.within.append(thread)
        if self.is_closed:
            self.wait(thread)

    def __exit__(self, *_: object) -> None:
        """Count the call as ended."""
        self.within.remove(threading.get_ident())

    def wait(self, thread: int) -> None:
        """Wait until the gate is open; `thread` is counted before and after."""
        if thread in self._closers or self.within.count(thread) > 1:
            return
        until_s = time.monotonic() + self._limit_s
        while self.is_closed and time.monotonic() < until_s:
            self.within.remove(thread)
            try:
                time.sleep(_LOOK_EVERY_S)
            finally:
                # Counted before the next look at the gate: it may have closed again.
                self.within.append(thread)

    def close(self, limit_s: float) -> None:
        """Hold calls that begin; wait for those of other threads, and for who closed it before."""
        me, until_s = threading.get_ident(), time.monotonic() + limit_s
        self._limit_s = limit_s
        self._closers.append(me)
        self.is_closed = True
        while self._is_waited_for(me) and time.monotonic() < until_s:
            time.sleep(_LOOK_EVERY_S)

    def _is_waited_for(self, closer: int) -> bool:
        closers = tuple(self._closers)
        # A child that is forked meanwhile, by a handler, has none.
        if closers and closers[0] != closer:
            return True
        return any(thread not in closers and thread != closer for thread in tuple(self.within))

    def open(self) -> None:
        """Let calls begin, unless another thread forks or Python ends."""
        thread = threading.get_ident()
        # In a child that was forked while this thread was about to fork it is not there.
        if thread in self._closers:
            self._closers.remove(thread)
        self.is_closed = bool(self._closers)

    def renew(self) -> None:
        """Reset the gate in a child, which has this thread alone."""
        thread = threading.get_ident()
        self.within[:] = [thread] * self.within.count(thread)
        self._closers.clear()
        self.is_closed = False


class _Importing:
    """The imports under way: a fork waits for them, but they wait at no gate.

    A thread that imports may already hold the lock of a module, which a child would find locked.
    """

    def __enter__(self) -> None:
        gate.within.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        gate.within.remove(threading.get_ident())


class _Registered:
    """Actions on objects, run in the order of registration for objects that still exist."""

    def __init__(self) -> None:
        # By identity: looked at while other threads add to it, which no WeakSet allows.
        self._all: dict[int, tuple[ReferenceType[Any], Callable[[Any], None]]] = {}

    def add(self, owner: Owner, action: Callable[[Owner], None]) -> None:
        key, everything = id(owner), self._all
        everything[key] = ref(owner, lambda _: everything.pop(key, None)), action

    def do(self) -> None:
        for reference, action in list(self._all.values()):
            owner = reference()
            if owner is not None:
                action(owner)


gate, importing = _Gate(), _Importing()
_renewed, _at_the_end = _Registered(), _Registered()
_stopped: list[tuple[Callable[[], None], Callable[[], None]]] = []


def finished(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function so that forks and the end of Python wait for calls of it.

    Use it for functions that run native code, import modules or hold locks that are not renewed.
    """

    @functools.wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        within, thread = gate.within, threading.get_ident()
        # An interrupt may come behind any call: within `try`, what is added is also taken away.
        try:
            within.append(thread)
            if gate.is_closed:
                gate.wait(thread)
            return function(*args, **kwargs)
        finally:
            within.remove(thread)

    return call


def renewed_in_children(owner: Owner, renew: Callable[[Owner], None]) -> None:
    """Call `renew(owner)` now, and in every forked child before anything else runs there.

    `renew` makes the owner's locks anew, because another thread of the parent may have held them.
    It must not start a thread: other objects may not have been renewed yet.
    """
    renew(owner)
    _renewed.add(owner, renew)


def stopped_at_forks(stop: Callable[[], None], go_on: Callable[[], None]) -> None:
    """Call `stop()` before every fork, once calls are over, and `go_on()` after it in both.

    Use it for native threads of a library, whose locks no child could renew.
    """
    _stopped.append((stop, go_on))


def done_at_the_end(owner: Owner, action: Callable[[Owner], None]) -> None:
    """Call `action(owner)` when Python ends, after the last call in the gate."""
    _at_the_end.add(owner, action)


def _end() -> None:
    gate.close(LONGEST_END_S)
    _at_the_end.do()


def _stop() -> None:
    gate.close(LONGEST_FORK_S)
    for stop, _ in _stopped:
        stop()


def _go_on() -> None:
    for _, go_on in reversed(_stopped):
        go_on()
    gate.open()


def _go_on_in_child() -> None:
    gate.renew()
    _go_on()
    _renewed.do()


atexit.register(_end)
# Not on Windows, which does not fork.
if sys.platform != "win32" and hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_stop, after_in_parent=_go_on, after_in_child=_go_on_in_child)
