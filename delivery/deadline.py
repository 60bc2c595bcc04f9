"""The time that a piece of work may wait for others: one limit, however many servers it asks.

    with deadline.within(10):
        for place, mirror in enumerate(mirrors):
            with deadline.share(len(mirrors) - place):
                ask(mirror)  # which calls left_s before it waits, and spend after

Only waiting counts. Work of the device itself, such as hashing, may take as long as it needs.
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
    """Limit the waiting of this thread inside to limit_s seconds in all.

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
    """Limit the waiting inside to one of `parts` equal parts of the time that is left."""
    with within(left_s() / parts):
        yield


def left_s() -> float:
    """Return how long this thread may still wait, seconds; inf without a limit, never below 0."""
    budget = _current.get()
    if budget is None:
        return math.inf
    if budget.stop is not None and budget.stop.is_set():
        return 0.0
    return max(0.0, budget.left_s)


def is_stopped() -> bool:
    """Return whether this thread's work was told to end."""
    budget = _current.get()
    return budget is not None and budget.stop is not None and budget.stop.is_set()


def stop_event() -> threading.Event | None:
    """Return the event that ends this thread's work, if there is one."""
    budget = _current.get()
    return None if budget is None else budget.stop


def spend(seconds: float) -> None:
    """Count so many seconds as waited."""
    budget = _current.get()
    while budget is not None:
        budget.left_s -= seconds
        budget = budget.outer
