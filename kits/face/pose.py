"""The rotation and position of a head, from its mesh.

The camera looks along z, x goes right and y down in the picture; its axis meets the picture's
centre. The face is topology.canonical_face, rotated, scaled and moved until it lies on the mesh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology

Values: TypeAlias = NDArray[np.float64]

# What stays in place while a face speaks, blinks or frowns: forehead, nose, corners and
# surroundings of the eyes, cheek bones. Left out are lips, chin, lids and brows.
RIGID = (
    *(168, 6, 197, 195, 5, 4, 1, 2, 98, 327, 129, 358, 48, 278, 64, 294, 122, 351, 188, 412),
    *(198, 420, 131, 360, 33, 263, 133, 362, 130, 359, 243, 463, 226, 446, 35, 265, 143, 372),
    *(111, 340, 116, 345, 123, 352, 50, 280, 101, 330, 36, 266, 118, 347, 127, 356, 234, 454),
    *(9, 8, 151, 10, 109, 338, 69, 299, 104, 333, 68, 298, 54, 284, 21, 251, 162, 389, 67, 297),
)
# A point this many centimetres off counts half.
TOLERANCE_CM = 0.5
ROUNDS = 2
# From the face's axes (y up, z forward) to the camera's (y down, z away) of a frontal face.
_FACING = np.diag([1.0, -1.0, -1.0])


@dataclass(frozen=True, eq=False)
class Pose:
    """The pose of a head: a point p of the canonical face is at rotation @ p + translation.

    rotation: float64[3, 3], from the face's axes to the camera's (x right, y down, z away).
    translation: float64[3], of the point between the eyes, in centimetres from the camera, if the
    focal length is right and the head is as large as the canonical one.
    """

    rotation: Values
    translation: Values

    @property
    def angles(self) -> NDArray[np.float32]:
        """Return float32[3] of yaw, pitch, roll in degrees, -180..180; see head_pose."""
        turn = _FACING @ self.rotation
        yaw = math.atan2(turn[2, 0], math.hypot(turn[0, 0], turn[1, 0]))
        pitch = math.atan2(turn[2, 1], turn[2, 2])
        roll = math.atan2(turn[1, 0], turn[0, 0])
        return np.array([math.degrees(each) for each in (yaw, pitch, roll)], np.float32)


def rotation_of(yaw: float, pitch: float, roll: float) -> Values:
    """Return the rotation of a Pose with these angles, in degrees."""
    y, x, z = math.radians(-yaw), math.radians(pitch), math.radians(roll)
    turned = np.array([[math.cos(y), 0, math.sin(y)], [0, 1, 0], [-math.sin(y), 0, math.cos(y)]])
    bent = np.array([[1, 0, 0], [0, math.cos(x), -math.sin(x)], [0, math.sin(x), math.cos(x)]])
    leant = np.array([[math.cos(z), -math.sin(z), 0], [math.sin(z), math.cos(z), 0], [0, 0, 1]])
    return np.asarray(_FACING @ leant @ turned @ bent, np.float64)


def head_pose(
    mesh: NDArray[Any],
    width: int,
    height: int,
    visibility: NDArray[Any] | None = None,
    focal_length: float | None = None,
) -> Pose:
    """The pose of a head.

    mesh: float32[478, 3] in pixels of the picture, which is `width` x `height`.
    visibility: float32[478], how much each point counts; None: all alike.
    focal_length: of the camera, in pixels: the angles are then relative to the camera's axis. None,
    as for photos of unknown cameras, or parts cut out of them: the face is taken as seen from
    afar, and the angles are relative to the line from the camera to the face, so that 0 is a look
    into the camera; the translation then supposes the picture's longer side, as of a lens that
    sees 53 degrees along it.

    The angles, as MNNKit has them, left and right being the subject's own: yaw is negative when the
    face turns to its left, which is the right of a picture that is not mirrored; pitch is negative
    when it looks up; roll is negative when the head leans to its left shoulder, clockwise in the
    picture. The head is first nodded, then turned, then leant, all about the picture's axes, so
    that turning the picture changes roll alone. Near 90 degrees of yaw pitch and roll are alike.

    The points are put at the depth that the network gives them, as MediaPipe's face geometry
    does, and the canonical face is laid on them by fit_similarity, twice more with those that lie
    far off counting less.
    """
    face, rows = _rigid_face()
    points = np.asarray(mesh[rows], np.float64)
    weights = np.ones(len(rows))
    if visibility is not None:
        weights = np.maximum(np.asarray(visibility[rows], np.float64), 1e-3)
    focal = float(max(width, height) if focal_length is None else focal_length)
    points[:, :2] -= np.array([width / 2, height / 2])
    scale, rotation, shift = fit_similarity(face, points, weights)
    per_cm = max(scale, 1e-9)
    if focal_length is None:
        placed = points / per_cm
    else:
        # Depth counts along the line to the face: the network knows no other.
        rays = np.column_stack([points[:, :2] / focal, np.ones(len(points))])
        sight = np.array([*(shift[:2] / focal), 1.0])
        length = float(np.sqrt(sight @ sight))
        depth = (focal * length + points[:, 2] - shift[2]) / per_cm
        placed = rays * (depth * length / (rays @ sight))[:, None]
    scale, shift = 1.0, shift / per_cm
    if focal_length is not None:
        scale, rotation, shift = fit_similarity(face, placed, weights)
    for _ in range(ROUNDS):
        off = ((face @ rotation.T * scale + shift - placed) ** 2).sum(axis=1)
        trust = weights / (1 + off / TOLERANCE_CM**2)
        scale, rotation, shift = fit_similarity(face, placed, trust)
    distance = focal / (per_cm * max(scale, 1e-9))
    if focal_length is None:
        return Pose(rotation, np.array([*(shift[:2] / focal * per_cm * distance), distance]))
    return Pose(rotation, np.asarray(shift / max(scale, 1e-9)))


def fit_similarity(source: Values, target: Values, weights: Values) -> tuple[float, Values, Values]:
    """Return scale, rotation[3, 3] and shift[3] that fit source[n, 3] best to target[n, 3].

    Umeyama: Least-squares estimation of transformation parameters, PAMI 1991.
    """
    import cv2

    share = weights / weights.sum()
    from_middle, to_middle = share @ source, share @ target
    a, b = source - from_middle, target - to_middle
    weighted = a.T * share
    # For so small a matrix numpy's takes four times as long.
    sizes, u, v = cast(tuple[Values, Values, Values], cv2.SVDecomp((weighted @ b).T))
    signs = np.array([1, 1, -1 if cv2.determinant(u @ v) < 0 else 1])
    rotation = (u * signs) @ v
    scale = float(sizes[:, 0] @ signs / max(float((weighted * a.T).sum()), 1e-12))
    return scale, rotation, to_middle - scale * rotation @ from_middle


@lru_cache(maxsize=1)
def _rigid_face() -> tuple[Values, NDArray[np.intp]]:
    rows = np.array(RIGID, np.intp)
    return topology.canonical_face()[rows].astype(np.float64), rows
