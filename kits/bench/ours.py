"""Our kits at their jobs, with the options that they have by default, if not said otherwise."""

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
    options: ClassVar[dict[str, Any]] = {}
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
        method = getattr(self._class(self.mode, threads=job.threads, **self.options), self.method)
        image = job.inputs["image"]
        return lambda: self.found(self.count(method(image)))

    def count(self, result: Any) -> int:
        """How many things a result holds."""
        return len(result)


class FaceDetection(_Kit):
    """FaceDetector."""

    kit = "palmkit.kits:FaceDetector"


class FaceMesh(_Kit):
    """FaceMesh, each picture for itself, the face seen twice; MediaPipe looks for one face."""

    kit = "palmkit.kits:FaceMesh"
    options: ClassVar = {"max_faces": 1}


class FaceMeshOnce(FaceMesh):
    """The same after one look, as much as MediaPipe does."""

    options: ClassVar = {"max_faces": 1, "second_look": False}


class FaceMeshVideo(FaceMesh):
    """The same, tracked from frame to frame."""

    mode = "video"


class Portrait(_Kit):
    """PortraitSegmenter: a glance, then the mask at the size of the frame, edges refined."""

    kit = "palmkit.kits:PortraitSegmenter"
    method = "segment"

    def count(self, result: Any) -> int:
        """One mask."""
        return int(result.mask is not None)


class PortraitOnce(Portrait):
    """The same after one look, as much as MediaPipe does."""

    options: ClassVar = {"second_look": False}


class PortraitVideo(Portrait):
    """One look a frame, and steady from frame to frame."""

    mode = "video"


class Gestures(_Kit):
    """GestureRecognizer, each picture for itself; as many hands as MediaPipe looks for."""

    kit = "palmkit.kits:GestureRecognizer"
    options: ClassVar = {"max_hands": 2}
    method = "recognize"


class GesturesVideo(Gestures):
    """The same, tracked from frame to frame."""

    mode = "video"
