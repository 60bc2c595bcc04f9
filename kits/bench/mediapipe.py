"""MediaPipe at the same jobs, with the models inside its package.

https://github.com/google-ai-edge/mediapipe; its "solutions" run the same graphs and models as its
Tasks and bring the model files along.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from palmkit.engine.bench.engines.engine import Job, Run
from palmkit.kits.bench.contender import Contender


class _Solution(Contender):
    name = "mediapipe"
    title = "MediaPipe"
    modules = ("mediapipe",)
    distributions = ("mediapipe",)
    solution: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    things: ClassVar[str]

    def missing(self) -> str:
        """Return the missing package, also if it has no solutions any more."""
        return super().missing() or (
            "" if find_spec("mediapipe.python.solutions") else "mediapipe.python.solutions"
        )

    def import_library(self) -> None:
        """Import the solution."""
        module, _, name = self.solution.partition(":")
        package = import_module(f"mediapipe.python.solutions.{module}")
        self._class: Any = getattr(package, name)

    def open(self, job: Job) -> Run:
        """Make the graph."""
        self.limit(job.threads)
        graph = self._class(**self.options)
        image = job.inputs["image"]

        def run() -> Any:
            things = getattr(graph.process(image), self.things)
            return self.found(self.count(things))

        return run

    def count(self, things: Any) -> int:
        """Return how many things there are; None stands for none."""
        return 0 if things is None else len(things)


class FaceDetection(_Solution):
    """The detector for faces up to five metres away."""

    solution = "face_detection:FaceDetection"
    options: ClassVar = {"model_selection": 1}
    things = "detections"


class FaceMesh(_Solution):
    """The mesh with attention and irises, of one face, each picture for itself."""

    solution = "face_mesh:FaceMesh"
    options: ClassVar = {"static_image_mode": True, "refine_landmarks": True}
    things = "multi_face_landmarks"


class FaceMeshVideo(FaceMesh):
    """The mesh, tracked from frame to frame."""

    options: ClassVar = {"static_image_mode": False, "refine_landmarks": True}


class Portrait(_Solution):
    """The mask of persons, at the size of the frame."""

    solution = "selfie_segmentation:SelfieSegmentation"
    options: ClassVar = {"model_selection": 0}
    things = "segmentation_mask"

    def count(self, things: Any) -> int:
        """Return 1, as there is one mask."""
        return int(things is not None)


class Hands(_Solution):
    """Landmarks of up to two hands, each picture for itself; it names no gestures."""

    solution = "hands:Hands"
    options: ClassVar = {"static_image_mode": True}
    things = "multi_hand_landmarks"


class HandsVideo(Hands):
    """Landmarks, tracked from frame to frame."""

    options: ClassVar = {"static_image_mode": False}
