"""Our kits at their jobs, with the options they have by default."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from palmkit.engine.bench.engines.engine import Job, Run
from palmkit.kits.bench.contender import Contender


class _Kit(Contender):
    name = "palmkit"
    title = "PalmKit"
    modules = ("palmkit",)
    distributions = ("palmkit",)
    kit: ClassVar[str]
    mode: ClassVar[str] = "image"
    method: ClassVar[str] = "detect"

    def import_library(self) -> None:
        """Import the kit and the native engine."""
        module, _, name = self.kit.partition(":")
        import_module("palmkit.engine._native")
        self._cv2: Any = import_module("cv2")
        self._class: Any = getattr(import_module(module), name)

    def open(self, job: Job) -> Run:
        """Make the kit."""
        self.limit(job.threads)
        self._cv2.setNumThreads(job.threads)
        method = getattr(self._class(self.mode, threads=job.threads), self.method)
        image = job.inputs["image"]
        return lambda: self.found(self.count(method(image)))

    def count(self, result: Any) -> int:
        """How many things a result holds."""
        return len(result)


class FaceDetection(_Kit):
    """FaceDetector."""

    kit = "palmkit.kits:FaceDetector"
