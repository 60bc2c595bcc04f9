"""Our kits at their jobs, with the options that they have by default, if not said otherwise.

A job of palmkit.kits.bench.jobs is a class here, by its name, which is made of the table of kits
when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from palmkit.engine.bench.engines.engine import Job, Run
from palmkit.kits.bench.contender import Contender
from palmkit.kits.results import TriedOn
from palmkit.kits.table import KITS


class _Kit(Contender):
    name = "palmkit"
    title = "PalmKit"
    modules = ("palmkit",)
    distributions = ("palmkit",)
    kit: ClassVar[str]
    mode: ClassVar[str]
    options: ClassVar[dict[str, Any]]

    def import_library(self) -> None:
        """Import the kit and the native engine."""
        import_module("palmkit.engine._native")
        self._cv2: Any = import_module("cv2")
        self._class: Any = KITS[self.kit].load_kit()

    def open(self, job: Job) -> Run:
        """Make the kit."""
        self.limit(job.threads)
        self._cv2.setNumThreads(job.threads)
        made = self._class(self.mode, threads=job.threads, **self.options)
        method = getattr(made, KITS[self.kit].method)
        image = job.inputs["image"]
        return lambda: self.found(_count(method(image)))


def _count(result: Any) -> int:
    """Return how many things a result holds; a mask is one."""
    if isinstance(result, TriedOn):
        return len(result.faces)
    return len(result) if hasattr(result, "__len__") else 1


def __getattr__(job: str) -> type[_Kit]:
    name, _, variant = job.partition("_")
    if name not in KITS or variant not in ("", "once", "video"):
        raise AttributeError(f"module {__name__!r} has no attribute {job!r}")
    options = dict(KITS[name].timed)
    if variant == "once":
        options["second_pass"] = False
    mode = "video" if variant == "video" else "image"
    return type(job, (_Kit,), {"kit": name, "mode": mode, "options": options})
