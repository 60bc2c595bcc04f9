"""The machine's processors, and the folder for files that programs can make again."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def cpu_name() -> str:
    """Return the processor's model name if the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def check_processor(cpuinfo: str = "/proc/cpuinfo") -> None:
    """Raise ImportError where NumPy would end the process: on x86-64 without SSE4.2.

    cpuinfo: where Linux describes processors; elsewhere, and where it says nothing, all will do.
    """
    if sys.platform != "linux" or "numpy" in sys.modules:
        return
    try:
        with open(cpuinfo, "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:
        return
    _, found, flags = text.partition(b"\nflags\t")
    flags, is_whole, _ = flags.partition(b"\n")
    if found and is_whole and b"sse4_2" not in flags.split():
        raise ImportError(
            "expected a processor with SSE4.2, as those made since 2011 have; this one lacks it"
        )


def usable_cores() -> int:
    """Return how many processors this process may use; all, where the system does not say."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cache_folder(purpose: str) -> Path | None:
    """Return the user's cache folder for `purpose`; None where there is no home to have it in.

    It is palmkit/<purpose> in $PALMKIT_CACHE_HOME if that is set, else in the platform's own place:
    $XDG_CACHE_HOME or ~/.cache, ~/Library/Caches on macOS, %LOCALAPPDATA% on Windows.
    """
    own = os.environ.get("PALMKIT_CACHE_HOME", "")
    if own:
        return Path(own) / purpose
    variable = "LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"
    # A relative path is to be ignored: XDG Base Directory Specification.
    base = Path(os.environ.get(variable, ""))
    if not base.is_absolute():
        try:
            home = Path.home()
        except RuntimeError:
            return None
        base = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "palmkit" / purpose
