"""The last things made, by what they were made for."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from itertools import count
from typing import Generic, TypeVar

from palmkit.engine.forks import finished

PROGRAMS_KEPT = 32

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


class _Entry(Generic[_Kept]):
    """What is made for a key, or is being made by a thread of this process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.ended = threading.Event()
        self.made: tuple[_Kept] | None = None
        self.used = 0


class Latest(Generic[_Key, _Kept]):
    """What was made for the last 32 keys; safe to use from many threads and after a fork.

    One thread makes what is missing, and who asks for the same meanwhile waits for it. A child that
    is forked meanwhile makes it for itself.
    """

    def __init__(self, make: Callable[[_Key], _Kept]) -> None:
        """Make what is missing by `make`."""
        self._make = make
        self._entries: dict[_Key, _Entry[_Kept]] = {}
        self._clock = count()

    def __getitem__(self, key: _Key) -> _Kept:
        """What there is for the key, made now if it is new."""
        entry = self._entries.get(key)
        if entry is not None and entry.made is not None:
            entry.used = next(self._clock)
            return entry.made[0]
        return self._make_or_wait(key)

    @finished
    def _make_or_wait(self, key: _Key) -> _Kept:
        while True:
            entry = self._entries.get(key)
            if entry is not None and entry.made is not None:
                return entry.made[0]
            if entry is not None and entry.process == os.getpid():
                entry.ended.wait()
                continue
            mine = _Entry[_Kept]()
            if entry is not None:
                self._entries[key] = mine
            elif self._entries.setdefault(key, mine) is not mine:
                continue
            return self._fill(key, mine)

    def _fill(self, key: _Key, entry: _Entry[_Kept]) -> _Kept:
        try:
            made = self._make(key)
            entry.used = next(self._clock)
            entry.made = (made,)
        finally:
            # Of a failure nothing is kept: who waited tries it again.
            if entry.made is None and self._entries.get(key) is entry:
                del self._entries[key]
            entry.ended.set()
        while len(ended := [k for k, e in tuple(self._entries.items()) if e.made]) > PROGRAMS_KEPT:
            self._entries.pop(min(ended, key=self._used), None)
        return made

    def _used(self, key: _Key) -> int:
        entry = self._entries.get(key)
        return entry.used if entry else -1

    def values(self) -> Sequence[_Kept]:
        """All that is kept."""
        return tuple(e.made[0] for e in tuple(self._entries.values()) if e.made)
