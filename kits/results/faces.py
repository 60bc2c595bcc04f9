"""The faces of a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.results.result import Things, counted, named, place, rounded

KEYPOINTS = ("left_eye", "right_eye", "nose", "mouth_left", "mouth_right")
POSE = ("yaw", "pitch", "roll")
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
        """The mesh as MNNKit's 106 points, float32[106, 3], or None.

        See palmkit.kits.face.topology.points_106 for their order.
        """
        return _points_106(self.mesh)

    def to_dict(self) -> dict[str, Any]:
        """Return the command line's JSON of a face; pixels to 1/100, scores to 1/10000."""
        return {
            "box": rounded(self.box, 2),
            "score": round(self.score, 4),
            "id": self.id,
            "keypoints": dict(zip(KEYPOINTS, rounded(self.keypoints, 2), strict=True)),
            "mesh": rounded(self.mesh, 2),
            "visibility": rounded(self.visibility, 4),
            "pose": named(POSE, rounded(self.pose, 2)),
            "actions": named(ACTIONS, None if self.actions is None else self.actions.tolist()),
        }

    def words(self) -> str:
        """Return a line for people."""
        words = f"{self.score:.2f} {place(self.box)}"
        if self.pose is not None:
            yaw, pitch, roll = self.pose
            words += f" yaw {yaw:.0f} pitch {pitch:.0f} roll {roll:.0f}"
        if self.actions is not None:
            done = zip(ACTIONS, self.actions, strict=True)
            words += "".join(f" {name}" for name, is_done in done if is_done)
        return words


@dataclass(frozen=True, eq=False)
class Faces(Things[Face]):
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
        """The meshes as MNNKit's 106 points, float32[n, 106, 3], or None."""
        return _points_106(self.mesh)

    def __getitem__(self, index: int) -> Face:
        """Return the face at `index`, best score first; negative indices count from the end."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line."""
        faces = [face.to_dict() for face in self]
        return {"width": self.width, "height": self.height, "faces": faces}

    def words(self) -> list[str]:
        """Return how many faces there are, and a line for each."""
        return [counted(len(self), "face"), *(face.words() for face in self)]

    def drawn(self, image: Image) -> Image:
        """Draw the faces, with their meshes where these were asked for, on the picture."""
        from palmkit.kits import draw

        # Checkers know this file by two names, and so its classes as two; below, too.
        this: Any = self
        return draw.faces(image, this) if self.mesh is None else draw.mesh(image, this)


def _points_106(mesh: NDArray[np.float32] | None) -> NDArray[np.float32] | None:
    from palmkit.kits.face.topology import points_106

    return None if mesh is None else points_106(mesh)
