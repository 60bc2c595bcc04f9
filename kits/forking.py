"""What a forked child must not take over from threads that it does not have."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

Owner = TypeVar("Owner")
_all: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()


def renewed_in_children(owner: Owner, renew: Callable[[Owner], None]) -> None:
    """Call `renew(owner)` now, and in every child that is forked, before anything else runs there.

    It makes the locks of the owner anew: another thread of the parent may have held them.
    """
    renew(owner)
    _all[owner] = renew


def _renew() -> None:
    for owner, renew in list(_all.items()):
        renew(owner)


# Not on Windows, which does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
