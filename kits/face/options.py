"""The options of the two face kits."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar

from palmkit.kits.detection import SIDE_MULTIPLE
from palmkit.kits.options import (
    RUNNING,
    VIDEOS,
    Between,
    Modes,
    Options,
    Whole,
    option,
    same_option,
)
from palmkit.kits.quality import Networks, Quality, best_option, quality_option
from palmkit.kits.results import Faces

if TYPE_CHECKING:
    from palmkit.kits.kit import ModelSource

MESH = "mesh"
DETECTORS = Networks(fast="face_detector", best="face_detector_best")
MESHES = Networks(fast="face_mesh", best="face_mesh_best")
_LARGER = (
    "a larger network that finds more of the small faces of crowds and takes up to three times as"
    " long"
)
_CROWDS = "best in pictures that may show a crowd, if there is no budget_ms, else fast"
_MESHES = "meshes of pictures, if there is no budget_ms, as of best"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FaceOptions(Options):
    """The options of FaceDetector."""

    max_faces: int | None = option(None, "keep so many, those of the best score (all)", Whole(1))
    min_score: float | None = option(
        None,
        "least score of a face, 0 to 1; less finds more (the threshold of the model)",
        Between(0, 1),
    )
    min_face: float = option(
        0,
        "leave out faces whose shorter side is less, in pixels; less than 1: as a fraction of the"
        " picture's shorter side",
        Between(0, math.inf),
    )
    quality: Quality = quality_option(_LARGER, _CROWDS)
    size: int | None = option(
        None,
        "longest side of what the detector sees, in pixels, 32 to 4096; smaller pictures are"
        " enlarged to it, at most twice; more finds smaller faces and takes longer (320, and closer"
        " at what may be a small face; in videos at most 640)",
        Between(SIDE_MULTIPLE, 4096),
    )
    tile: int | None = option(
        None,
        "see large pictures also in overlapping squares of this side, in pixels, at full"
        " resolution, for small faces; not in tracking between detections (none)",
        Whole(SIDE_MULTIPLE),
    )
    budget_ms: float | None = option(
        None,
        "time to search a picture for small faces, in milliseconds: no closer look begins that"
        " would end later, the first is always taken; of a video, time that a frame takes on"
        " average: for that, frames are left out, and show what was last found, moved along with"
        " the camera (as long as needed)",
        Between(0, 1e9),
    )
    detect_every: int = option(
        10,
        "search the whole frame every so many frames, and whenever a face is lost or there is"
        " none; between, only around each face",
        Whole(1),
        group=VIDEOS,
    )
    smoothing: bool = option(
        True, "steady boxes and points in videos, with a one-euro filter", group=VIDEOS
    )
    best_detector_model: ModelSource | None = best_option("face_detector_best", "face detector")

    def least_side(self, height: int, width: int) -> float:
        """Return the shorter side of the smallest wanted face in a picture of this size, pixels."""
        return self.min_face * min(height, width) if self.min_face < 1 else self.min_face


@dataclass(frozen=True, init=False, repr=False, eq=False)
class FaceModes(Modes[Faces]):
    """How a kit of faces is driven: what its search of a picture takes has a budget, too."""

    has_budget_of_pictures: ClassVar[bool] = True
    _: KW_ONLY
    budget_ms: float | None = same_option(FaceOptions, "budget_ms")


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FaceMeshOptions(FaceOptions):
    """The options of FaceMesh."""

    quality: Quality = quality_option(
        f"{_LARGER}, and in pictures a larger one for meshes, too, whose irises are moved to where"
        " the eyes are dark",
        f"{_MESHES}; faces {_CROWDS}",
    )
    detect_every: int = option(
        20,
        "search for new faces every so many frames, and whenever one is lost or there is none;"
        " between, each face is only followed",
        Whole(1),
        group=VIDEOS,
    )
    min_presence: float | None = option(
        None,
        "how certain the mesh must be that it is on a face, 0 to 1 (the threshold of the model)",
        Between(0, 1),
        group=MESH,
    )
    second_pass: bool = option(
        True,
        "infer each face of a picture twice, which is better and takes longer",
        group=MESH,
        was="second_look",
    )
    focal_length: float | None = option(
        None,
        "of the camera, in pixels, for the pose, see palmkit.kits.face.pose.head_pose (unknown)",
        Between(1, 1e6),
        group=MESH,
    )
    detector_model: ModelSource | None = option(
        None,
        "another face detector, as `model`, such as face_detector@stable",
        group=RUNNING,
        metavar="FILE",
        was="detector",
    )
