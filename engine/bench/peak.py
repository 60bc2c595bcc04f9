"""The peak speed of this machine: multiply-adds on registers, by our own native code."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any


def peak_flops(threads: int, seconds: float = 0.2) -> float | None:
    """Return the float32 operations a second of this many threads; None without native code.

    A multiply-add is two operations. All threads run at the same time, as clocks fall with the
    load.
    """
    try:
        native: Any = import_module("palmkit.engine._native")
    except ImportError:
        return None
    with ThreadPoolExecutor(threads) as pool:
        reached: list[float] = list(pool.map(native.peak_flops, [seconds] * threads))
    return sum(reached)
