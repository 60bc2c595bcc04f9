"""The square that the face mesh network looks at: turned so that the eyes are level.

A crop's own coordinates run from 0 to 1 from its top left corner, x to the right and y down as
the face stands upright. Pixels are areas: pixel 0 of a picture covers 0 to 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.crop import Crop

# MediaPipe's: the side of the crop over the longer side of the box round the mesh.
MARGIN = 1.5
RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS = (33, 133), (362, 263)
MESH_POINTS = 468
X_WEIGHTS = np.array([-0.58, 0.70, 0.18])
Y_WEIGHTS = np.array([-0.60, -0.02, 0.77])
SIDE_WEIGHTS = np.array([1.56, 0.50, 0.17])


def crop_from_keypoints(keypoints: NDArray[Any], box: NDArray[Any]) -> Crop:
    """The crop of a face that the detector found.

    keypoints: float32[5, 2], left eye, right eye, nose, mouth left, mouth right, in pixels.
    box: float32[4] of x, y, w, h in pixels.
    The weights are least squares fits of what crop_from_mesh gives for the training pictures.
    """
    points = np.asarray(keypoints, np.float64)
    eyes, mouth = points[:2].mean(axis=0), points[3:].mean(axis=0)
    across, down = points[0] - points[1], mouth - eyes
    # The eyes come close in profile and say little then; the way down to the mouth does not.
    across = across + 0.5 * np.array([down[1], -down[0]])
    angle = math.atan2(across[1], across[0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    left, top, width, height = (float(value) for value in box)
    centre = np.array([left + width / 2, top + height / 2])
    size = max(width, height)
    nose = turn @ (points[2] - eyes)
    middle = turn @ (centre - eyes)
    down = turn @ down
    eye_distance = float(np.hypot(*(points[0] - points[1])))
    x = X_WEIGHTS @ np.array([nose[0], middle[0], down[0]])
    y = Y_WEIGHTS @ np.array([nose[1], middle[1], down[1]])
    side = SIDE_WEIGHTS @ np.array([float(np.hypot(*down)), eye_distance, size])
    start = turn.T @ np.array([x, y]) + eyes
    return Crop(float(start[0]), float(start[1]), max(float(side), 1.0) * MARGIN, angle)


def crop_from_mesh(points: NDArray[Any]) -> Crop:
    """The crop round a mesh: MediaPipe's, but its box lies level with the eyes.

    points: float32[468 or more, 2 or more], in pixels.
    """
    flat = np.asarray(points, np.float64)[:MESH_POINTS, :2]
    eyes = [flat[list(corners)].mean(axis=0) for corners in (RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS)]
    across = eyes[1] - eyes[0]
    angle = math.atan2(across[1], across[0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    level = flat @ turn.T
    low, high = level.min(axis=0), level.max(axis=0)
    centre = turn.T @ ((low + high) / 2)
    side = max(float((high - low).max()), 1.0) * MARGIN
    return Crop(float(centre[0]), float(centre[1]), side, angle)
