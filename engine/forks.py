"""Work that a fork waits for.

A child has none of its parent's threads: what one of them had locked stays locked in it, the locks
of modules that were being imported among them. So a fork waits until what may hold such locks is
done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

# Hooks of forks run in the reverse order, and threads at work may want what that of logging locks.
import_module("logging")

# Longer than loading and planning take. Who forks may itself hold what they wait for.
LONGEST_WAIT_S = 5.0


class _Gate:
    """Counts the threads at work; closed while a fork is under way."""

    def __init__(self) -> None:
        self.own = threading.local()
        self.reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self.close, after_in_parent=self.open, after_in_child=self.reset
            )

    def reset(self) -> None:
        """Open the gate and count nobody but this thread: in a child all others are gone."""
        self.at_work = self.depth
        self.is_closed = False
        self.changed = threading.Condition(threading.Lock())

    @property
    def depth(self) -> int:
        """How often this thread is counted."""
        return getattr(self.own, "depth", 0)

    def close(self) -> None:
        """Let no other thread begin, and wait for those that have."""
        self.changed.acquire()
        self.is_closed = True
        self.changed.wait_for(lambda: self.at_work <= self.depth, LONGEST_WAIT_S)

    def open(self) -> None:
        """Let threads begin."""
        self.is_closed = False
        self.changed.notify_all()
        self.changed.release()

    def enter(self) -> None:
        """One thread more at work."""
        with self.changed:
            if self.depth == 0:
                self.changed.wait_for(lambda: not self.is_closed, LONGEST_WAIT_S)
            self.own.depth = self.depth + 1
            self.at_work += 1

    def leave(self) -> None:
        """One less."""
        with self.changed:
            self.own.depth = self.depth - 1
            self.at_work -= 1
            self.changed.notify_all()


# Made where this is imported: a fork may come while a thread is within its first piece of work.
_GATE = _Gate()


@contextmanager
def before_a_fork() -> Generator[None]:
    """Make a fork wait for the end of the block, for at most 5 seconds."""
    _GATE.enter()
    try:
        yield
    finally:
        _GATE.leave()
