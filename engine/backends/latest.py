"""The last things made, by what they were made for."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

PROGRAMS_KEPT = 32

_Key = TypeVar("_Key")
_Kept = TypeVar("_Kept")


class Latest(Generic[_Key, _Kept]):
    """What was made for the last 32 keys; safe to use from many threads."""

    def __init__(self, make: Callable[[_Key], _Kept]) -> None:
        """Make what is missing by `make`."""
        self._make = make
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __getitem__(self, key: _Key) -> _Kept:
        """What there is for the key, made now if it is new."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = self._make(key)
                if len(self._kept) > PROGRAMS_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return found

    def values(self) -> Sequence[_Kept]:
        """All that is kept."""
        with self._lock:
            return tuple(self._kept.values())
