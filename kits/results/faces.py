"""The faces of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.results.result import counted, place, rounded
from palmkit.kits.results.things import Thing, Things, numbered

if TYPE_CHECKING:
    from palmkit.kits.original import Original
    from palmkit.kits.results.detections import Detections, KeyPoints

KEYPOINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")
POSE = ("yaw", "pitch", "roll")
ACTIONS = ("eye_blink", "mouth_open", "head_yaw", "head_pitch", "brow_jump")


@dataclass(frozen=True, eq=False, repr=False)
class Face(Thing):
    """One face; see Faces for the meaning of each field.

    box: float32[4]; keypoints: float32[5, 2]; mesh: float32[478, 3]; visibility: float32[478];
    pose: float32[3]; actions: bool[5].
    """

    box: NDArray[np.float32]
    score: float
    keypoints: NDArray[np.float32]
    id: int | None = None
    mesh: NDArray[np.float32] | None = None
    visibility: NDArray[np.float32] | None = None
    pose: NDArray[np.float32] | None = None
    actions: NDArray[np.bool_] | None = None
    original: Original | None = None

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """The mesh as MNNKit's 106 points, float32[106, 3], or None.

        See palmkit.kits.face.topology.points_106 for their order.
        """
        return _points_106(self.mesh)

    @property
    def angle(self) -> float:
        """How far the eyes are turned clockwise from level in the picture, in radians."""
        from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh

        if self.mesh is not None:
            return crop_from_mesh(self.mesh).angle
        return crop_from_keypoints(self.keypoints, self.box).angle

    def to_dict(self) -> dict[str, Any]:
        """Return the command line's JSON of a face; pixels to 1/100, scores to 1/10000."""
        found: dict[str, Any] = {"box": rounded(self.box, 2), "score": round(self.score, 4)}
        if self.id is not None:
            found["id"] = self.id
        found["keypoints"] = dict(zip(KEYPOINTS, rounded(self.keypoints, 2), strict=True))
        if self.mesh is not None:
            found["mesh"] = rounded(self.mesh, 2)
        if self.visibility is not None:
            found["visibility"] = rounded(self.visibility, 4)
        if self.pose is not None:
            found["pose"] = dict(zip(POSE, rounded(self.pose, 2), strict=True))
        if self.actions is not None:
            found["actions"] = dict(zip(ACTIONS, self.actions.tolist(), strict=True))
        return found

    def words(self) -> str:
        """Return a line for people."""
        words = f"{numbered(self.id)}{self.score:.2f} {place(self.box)}"
        if self.pose is not None:
            # Without the sign of a rounded zero.
            yaw, pitch, roll = np.rint(self.pose) + 0.0
            words += f" yaw {yaw:.0f} pitch {pitch:.0f} roll {roll:.0f}"
        if self.actions is not None:
            done = zip(ACTIONS, self.actions, strict=True)
            words += "".join(f" {name}" for name, is_done in done if is_done)
        return words

    def alone(self, width: int, height: int) -> Faces:
        """Return the result of a picture of this size with no other face in it."""
        return Faces(
            width,
            height,
            self.box[None],
            np.array([self.score], np.float32),
            self.keypoints[None],
            None if self.id is None else np.array([self.id]),
            None if self.mesh is None else self.mesh[None],
            None if self.visibility is None else self.visibility[None],
            None if self.pose is None else self.pose[None],
            None if self.actions is None else self.actions[None],
            self.original,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Faces(Things[Face]):
    """The faces of one picture, best score first; a sequence of Face.

    width, height: of the upright picture, in pixels.
    boxes: float32[n, 4] of x, y, w, h (left, top, width, height), inside the picture.
    scores: float32[n].
    keypoints: float32[n, 5, 2] of x, y: left_eye, right_eye, nose, mouth_left, mouth_right.
    ids: int64[n], the same number for the same face while it is tracked; None in image mode.
    mesh: float32[n, 478, 3] of x, y, z in pixels, z smaller nearer to the camera; None if not asked
    for.
    visibility: float32[n, 478], 0 hidden to 1 seen, or None.
    pose: float32[n, 3] of yaw, pitch, roll in degrees, or None.
    actions: bool[n, 5]: eye_blink, mouth_open, head_yaw, head_pitch, brow_jump; or None.
    original: what draw and crop read the picture from; None of a frame of a video. It keeps alive
    what was given to the kit, a path, bytes, or an array, and no copy of it.
    left_out: what a budget had no time for, see Kit: "frame", "closer looks", or "" for nothing.
    """

    width: int
    height: int
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    keypoints: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None
    mesh: NDArray[np.float32] | None = None
    visibility: NDArray[np.float32] | None = None
    pose: NDArray[np.float32] | None = None
    actions: NDArray[np.bool_] | None = None
    original: Original | None = None
    left_out: str = ""

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """The meshes as MNNKit's 106 points, float32[n, 106, 3], or None."""
        return _points_106(self.mesh)

    def _at(self, index: int) -> Face:
        return Face(
            self.boxes[index],
            float(self.scores[index]),
            self.keypoints[index],
            None if self.ids is None else int(self.ids[index]),
            None if self.mesh is None else self.mesh[index],
            None if self.visibility is None else self.visibility[index],
            None if self.pose is None else self.pose[index],
            None if self.actions is None else self.actions[index],
            self.original,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line."""
        faces = [face.to_dict() for face in self]
        return {"width": self.width, "height": self.height, "faces": faces, **self._said_left_out()}

    def words(self) -> list[str]:
        """Return how many faces there are, and a line for each."""
        return [counted(len(self), "face"), *(face.words() for face in self)]

    def draw(self, image: Image | None = None, *, labels: bool = True) -> Image:
        """Return the picture with the faces, and their meshes where these are, drawn on it.

        image: the upright picture, uint8[h, w, 3] RGB; None: the one that the result keeps.
        labels: also scores, ids and actions. palmkit.kits.draw has more options.
        Returns a new uint8[h, w, 3].
        Raises ImageError if it keeps none, as of a video, or the picture is of another size.
        """
        from palmkit.kits import draw

        # Checkers know this file by two names, and so its classes as two; below, too.
        this: Any = self
        on = self._on(image)
        if self.mesh is None:
            return draw.faces(on, this, labels=labels)
        return draw.mesh(on, this, labels=labels)

    def to_supervision(self) -> Detections:
        """Return the faces as supervision.Detections.

        confidence is the score, class_id 0, tracker_id the id in videos; data has "class_name" and
        "keypoints", and of a mesh "mesh", "visibility", "pose" and "actions", as they are here.
        Raises ImportError without the package supervision.
        """
        from palmkit.kits.results import detections

        also = {name: getattr(self, name) for name in ("mesh", "visibility", "pose", "actions")}
        return detections.detections(
            self.boxes,
            self.scores,
            class_id=np.zeros(len(self), np.int64),
            class_name=["face"] * len(self),
            ids=self.ids,
            data={"keypoints": self.keypoints, **also},
        )

    def to_supervision_keypoints(self) -> KeyPoints:
        """Return the meshes, or where there are none the five points, as supervision.KeyPoints.

        Raises ImportError without the package supervision.
        """
        from palmkit.kits.results import detections

        points = self.keypoints if self.mesh is None else self.mesh[..., :2]
        return detections.key_points(
            points, self.scores, np.zeros(len(self), np.int64), self.visibility
        )


def _points_106(mesh: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    from palmkit.kits.face.topology import points_106

    return None if mesh is None else points_106(mesh)
