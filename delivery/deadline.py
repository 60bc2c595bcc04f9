"""The time that a piece of work may wait for others: one limit, however many servers it asks.

    with deadline.within(10):
        for place, mirror in enumerate(mirrors):
            with deadline.share(len(mirrors) - place):
                ask(mirror)  # which calls left_s before it waits, and spend after

Only waiting counts. What a device does by itself, such as hashing, has all the time that it takes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class _Budget:
    left_s: float
    stop: threading.Event | None
    outer: _Budget | None = None


_current: ContextVar[_Budget | None] = ContextVar("palmkit_delivery_deadline", default=None)


@contextmanager
def within(limit_s: float, stop: threading.Event | None = None) -> Generator[None]:
    """What this thread does inside may wait for limit_s seconds in all.

    stop: once it is set there is no time left. An outer limit goes on counting.
    """
    outer = _current.get()
    if outer is not None:
        limit_s, stop = min(limit_s, outer.left_s), stop or outer.stop
    token = _current.set(_Budget(limit_s, stop, outer))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def share(parts: int) -> Generator[None]:
    """Inside, one of so many equal parts of the time that is left; without a limit, all of it."""
    with within(left_s() / parts):
        yield


def left_s() -> float:
    """How long this thread may still wait, seconds; infinity without a limit, never below 0."""
    budget = _current.get()
    if budget is None:
        return math.inf
    if budget.stop is not None and budget.stop.is_set():
        return 0.0
    return max(0.0, budget.left_s)


def is_stopped() -> bool:
    """Whether what this thread does was told to end."""
    budget = _current.get()
    return budget is not None and budget.stop is not None and budget.stop.is_set()


def stop_event() -> threading.Event | None:
    """The event that ends what this thread does, if there is one."""
    budget = _current.get()
    return None if budget is None else budget.stop


def spend(seconds: float) -> None:
    """So long was waited."""
    budget = _current.get()
    while budget is not None:
        budget.left_s -= seconds
        budget = budget.outer
