"""Facts about a device, for the conditions of a rollout and the rows of a report."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_SYSTEMS = {"win32": "windows", "cygwin": "windows", "darwin": "macos"}
_MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}


@cache
def sdk() -> str:
    """Return this SDK's version, in a checkout that is not installed from its pyproject.toml."""
    try:
        return version("palmkit")
    except PackageNotFoundError:
        project = Path(__file__).resolve().parents[1] / "pyproject.toml"
        text = project.read_text(encoding="utf-8") if project.is_file() else ""
        found = re.search(r'^version = "([^"]+)"', text, re.MULTILINE)
        return found[1] if found else "0"


def os_name() -> str:
    """Return the operating system: linux, macos, windows or Python's name of another one."""
    return _SYSTEMS.get(sys.platform, sys.platform)


def arch() -> str:
    """Return the kind of processor: x86_64, arm64 or the system's name of another one."""
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


@cache
def cpu() -> frozenset[str]:
    """Return the instruction sets that the engine has kernels for and that this CPU has."""
    try:
        from palmkit.engine import _native
    except ImportError:
        return frozenset()
    return frozenset(_native.isas())


def memory_mb() -> int | None:
    """Return the machine's memory in MiB; None where the system does not say."""
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    except (AttributeError, OSError, ValueError):
        return None


def facts(tags: Iterable[str] = ()) -> dict[str, object]:
    """Return all facts, as palmkit.delivery.policy.holds takes them.

    tags: the app's own facts about this device, for conditions on "tag".
    """
    known: dict[str, object] = {
        "sdk": sdk(),
        "os": os_name(),
        "arch": arch(),
        "cpu": cpu(),
        "tag": frozenset(tags),
    }
    if (memory := memory_mb()) is not None:
        known["memory_mb"] = memory
    return known
