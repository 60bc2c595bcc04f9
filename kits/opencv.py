"""Ending OpenCV's threads before forks.

The threads go to sleep some time after their last work, and hold locks meanwhile: a child that is
forked then hangs at its first parallel call. So they end before a fork, and start again in both
processes when they are needed.

A fork must not happen while a Python thread is just ending, either: OpenCV frees the thread's data
after its last line of Python, and holds a lock of its own meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from palmkit.engine.forks import stopped_at_forks

# Longer than a thread takes to end, also where others take the CPU.
_LONGEST_END_S = 2.0
_LOOK_EVERY_S = 0.0002
# By Linux's numbers; elsewhere nothing says when a thread is gone.
_leaving: list[int] = []
_MOST_LEAVING = 64
_count = 0


def leave() -> None:
    """Announce the end of a thread that used OpenCV, as its last call: a fork waits for it."""
    _leaving.append(threading.get_native_id())
    del _leaving[:-_MOST_LEAVING]


def _stop() -> None:
    global _count
    set_count = getattr(sys.modules.get("cv2"), "setNumThreads", None)
    if set_count is not None:
        count: int = sys.modules["cv2"].getNumThreads()
        if count > 1:
            _count = count
            set_count(1)
    # Last: while OpenCV's threads end, those of Python may run up to their own end.
    until_s = time.monotonic() + _LONGEST_END_S
    while _leaving and time.monotonic() < until_s:
        thread = _leaving[-1]
        if os.path.exists(f"/proc/self/task/{thread}"):
            time.sleep(_LOOK_EVERY_S)
        elif thread in _leaving:
            _leaving.remove(thread)


def _go_on() -> None:
    global _count
    _leaving.clear()
    if _count:
        sys.modules["cv2"].setNumThreads(_count)
        _count = 0


stopped_at_forks(_stop, _go_on)
