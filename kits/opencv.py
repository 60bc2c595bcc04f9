"""OpenCV's threads, which no fork may find at work.

They go to sleep some time after the work that they had a share in, and hold locks meanwhile: a
child that is forked then hangs at its first call that is shared out. So they end before a fork, and
are there again in both processes when they are needed.
"""

from __future__ import annotations

import sys

from palmkit.engine.forks import stopped_at_forks

_count = 0


def _stop() -> None:
    global _count
    set_count = getattr(sys.modules.get("cv2"), "setNumThreads", None)
    if set_count is not None:
        count: int = sys.modules["cv2"].getNumThreads()
        if count > 1:
            _count = count
            set_count(1)


def _go_on() -> None:
    global _count
    if _count:
        sys.modules["cv2"].setNumThreads(_count)
        _count = 0


stopped_at_forks(_stop, _go_on)
