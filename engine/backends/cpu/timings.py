"""Timings of this machine, kept on disk: which algorithm took how long for which step."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from palmkit.engine import _native
from palmkit.engine.machine import cache_folder, cpu_name
from palmkit.engine.replacing import replacing

Timings = Mapping[str, Mapping[str, float]]


class TimingsFile:
    """Seconds by what is done and how, in one JSON file for each CPU model and native library.

    Whatever is wrong with the file or its folder, what is read is what can be trusted, and what
    cannot be written is timed again another day. Of processes that write at the same time, the
    last one's file is kept, whole.
    """

    def __init__(self, name: str = "tune") -> None:
        """The file of this machine in the folder of this name, within the user's cache."""
        folder = cache_folder(name)
        self.machine = f"{cpu_name()}; {_native.isas()[0]}; library {_library_digest()}"
        digest = hashlib.blake2b(self.machine.encode(), digest_size=8).hexdigest()
        self.path: Path | None = folder / f"{digest}.json" if folder else None

    def read(self) -> dict[str, dict[str, float]]:
        """All that is known."""
        if self.path is None:
            return {}
        try:
            content = _mapping(json.loads(self.path.read_bytes()))
        except (OSError, ValueError, RecursionError):
            return {}
        if content.get("machine") != self.machine:
            return {}
        steps = _mapping(content.get("steps"))
        return {step: each for step, value in steps.items() if (each := _seconds(value))}

    def add(self, timings: Timings) -> None:
        """Keep these as well."""
        if self.path is None:
            return
        steps = {**self.read(), **timings}
        text = json.dumps({"machine": self.machine, "steps": steps}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as part:
                part.write_text(text, encoding="utf-8")
        except OSError:
            return


def _mapping(value: object) -> dict[str, object]:
    """A JSON object; empty for anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _seconds(value: object) -> dict[str, float]:
    """Seconds by algorithm; none of them if one is no time."""
    seconds = {
        name: each
        for name, each in _mapping(value).items()
        if isinstance(each, float) and math.isfinite(each) and each > 0
    }
    return seconds if len(seconds) == len(_mapping(value)) else {}


def _library_digest() -> str:
    """Kernels change with the file, whatever its version says."""
    content = _native.LIBRARY.read_bytes()
    return hashlib.blake2b(content, digest_size=8).hexdigest()
