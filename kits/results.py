"""What the kits return: frozen dataclasses of arrays, one row a thing found.

Pixels are those of the upright input picture, origin top left, y down; scores are 0..1; left and
right are the subject's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEYPOINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")
POSE = ("yaw", "pitch", "roll")
GESTURES = (
    "fist",
    "open_palm",
    "one",
    "two",
    "three",
    "four",
    "ok",
    "thumb_up",
    "thumb_down",
    "finger_heart",
    "other",
)
ACTIONS = ("eye_blink", "mouth_open", "head_yaw", "head_pitch", "brow_jump")


@dataclass(frozen=True, eq=False)
class Face:
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

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """float32[106, 3]: the mesh as the 106 points that users of MNNKit know; or None.

        See palmkit.kits.face.topology.points_106 for their order.
        """
        return _points_106(self.mesh)

    def to_dict(self) -> dict[str, Any]:
        """The face as in the JSON of the command line; pixels to 1/100, scores to 1/10000."""
        return {
            "box": _rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "keypoints": dict(zip(KEYPOINTS, _rounded(self.keypoints, 2), strict=True)),
            "mesh": _rounded(self.mesh, 2),
            "visibility": _rounded(self.visibility, 4),
            "pose": _named(POSE, _rounded(self.pose, 2)),
            "actions": _named(ACTIONS, None if self.actions is None else self.actions.tolist()),
        }


@dataclass(frozen=True, eq=False)
class Faces:
    """The faces of one picture, best score first.

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

    @property
    def points_106(self) -> NDArray[np.float32] | None:
        """float32[n, 106, 3]: the meshes as the 106 points that users of MNNKit know; or None."""
        return _points_106(self.mesh)

    def __len__(self) -> int:
        """How many faces."""
        return len(self.boxes)

    def __getitem__(self, index: int) -> Face:
        """The face at `index`, best score first; negative indices count from the end."""
        return Face(
            self.boxes[index],
            float(self.scores[index]),
            self.keypoints[index],
            None if self.ids is None else int(self.ids[index]),
            None if self.mesh is None else self.mesh[index],
            None if self.visibility is None else self.visibility[index],
            None if self.pose is None else self.pose[index],
            None if self.actions is None else self.actions[index],
        )

    def __iter__(self) -> Iterator[Face]:
        """The faces, one at a time."""
        return (self[index] for index in range(len(self)))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line."""
        faces = [face.to_dict() for face in self]
        return {"width": self.width, "height": self.height, "faces": faces}


def _points_106(mesh: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    from palmkit.kits.face.topology import points_106

    return None if mesh is None else points_106(mesh)


@dataclass(frozen=True, eq=False)
class Hand:
    """One hand; see Hands for the meaning of each field.

    box: float32[4]; landmarks: float32[21, 3]; handedness: "left" or "right".
    """

    box: NDArray[np.float32]
    score: float
    landmarks: NDArray[np.float32]
    handedness: str
    gesture: str
    gesture_score: float
    id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The hand as in the JSON of the command line; pixels to 1/100, scores to 1/10000."""
        return {
            "box": _rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "handedness": self.handedness,
            "landmarks": _rounded(self.landmarks, 2),
            "gesture": self.gesture,
            "gesture_score": round(self.gesture_score, 4),
        }


@dataclass(frozen=True, eq=False)
class Hands:
    """The hands of one picture, best score first.

    width, height: of the upright picture, in pixels.
    boxes: float32[n, 4] of x, y, w, h round the landmarks, inside the picture.
    scores: float32[n], how certain it is that a hand is there.
    landmarks: float32[n, 21, 3] of x, y, z in pixels: the wrist, then four joints of each finger
        from the palm to the tip, thumb first; z is 0 at the wrist, less nearer to the camera.
    handedness: of each "left" or "right".
    gestures: of each one of GESTURES, or the name of one's own gesture.
    gesture_scores: float32[n].
    ids: int64[n], the same number for the same hand while it is tracked; None in image mode.
    """

    width: int
    height: int
    boxes: NDArray[np.float32]
    scores: NDArray[np.float32]
    landmarks: NDArray[np.float32]
    handedness: tuple[str, ...]
    gestures: tuple[str, ...]
    gesture_scores: NDArray[np.float32]
    ids: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """How many hands."""
        return len(self.boxes)

    def __getitem__(self, index: int) -> Hand:
        """The hand at `index`, best score first; negative indices count from the end."""
        return Hand(
            self.boxes[index],
            float(self.scores[index]),
            self.landmarks[index],
            self.handedness[index],
            self.gestures[index],
            float(self.gesture_scores[index]),
            None if self.ids is None else int(self.ids[index]),
        )

    def __iter__(self) -> Iterator[Hand]:
        """The hands, one at a time."""
        return (self[index] for index in range(len(self)))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of the command line."""
        hands = [hand.to_dict() for hand in self]
        return {"width": self.width, "height": self.height, "hands": hands}


def _rounded(values: NDArray[Any] | None, digits: int) -> Any:
    """Nested lists; rounded in float64, so that 0.1 stays 0.1."""
    return None if values is None else np.round(values.astype(np.float64), digits).tolist()


def _named(names: tuple[str, ...], values: Any) -> dict[str, Any] | None:
    return None if values is None else dict(zip(names, values, strict=True))
