"""The numbers of a comparison: times, memory, and this machine's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import median

from palmkit.engine.ir import Array
from palmkit.engine.machine import cpu_name, usable_cores


@dataclass(frozen=True)
class Opened:
    """The cost of opening a model in a fresh process; None where memory cannot be measured."""

    version: str
    seconds: float
    memory_bytes: int | None
    peak_memory_bytes: int | None
    outputs: list[tuple[str, Array]]


@dataclass(frozen=True)
class Times:
    """Times of many runs.

    p95_ms: 95 of 100 runs took no longer.
    """

    runs: int
    min_ms: float
    median_ms: float
    p95_ms: float

    @staticmethod
    def of(seconds: Sequence[float]) -> Times:
        """Return the statistics of at least one run."""
        ordered = sorted(seconds)
        p95 = ordered[-(-95 * len(ordered) // 100) - 1]
        return Times(len(ordered), ordered[0] * 1e3, median(ordered) * 1e3, p95 * 1e3)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of at least one ratio."""
    return exp(sum(map(log, ratios)) / len(ratios))


def memory_in_use() -> int | None:
    """Return this process's resident bytes, mapped files among them; Linux only."""
    return _kilobytes("/proc/self/smaps_rollup", "Rss")


def peak_memory() -> int | None:
    """Return the most resident bytes since `reset_peak_memory`; Linux only."""
    return _kilobytes("/proc/self/status", "VmHWM")


def reset_peak_memory() -> None:
    """Count the peak from now on."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return


def _kilobytes(file: str, key: str) -> int | None:
    try:
        text = Path(file).read_text(encoding="ascii")
    except OSError:
        return None
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024
    return None


def processor() -> str:
    """Return the name of this machine's CPU, and how many cores this process may use."""
    return f"{cpu_name()}, {usable_cores()} cores"
