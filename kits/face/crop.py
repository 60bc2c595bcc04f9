"""The square that the face mesh network sees: rotated so that the eyes are level.

A crop's own coordinates run from 0 to 1 from its top left corner, x to the right and y down as the
face stands upright. Pixels are areas: pixel 0 of a picture covers 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.crop import Crop

# MediaPipe's: the side of the crop over the longer side of the box round the mesh.
MARGIN = 1.5
RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS = (33, 133), (362, 263)
MESH_POINTS = 468
# Of the nose, the middle of the box and the mouth, as they lie below the eyes of a level face; and
# of how far mouth and eyes are apart, the eyes themselves, and the longer side of the box.
X_WEIGHTS = (-0.58, 0.70, 0.18)
Y_WEIGHTS = (-0.60, -0.02, 0.77)
SIDE_WEIGHTS = (1.56, 0.50, 0.17)


def crop_from_keypoints(keypoints: NDArray[Any], box: NDArray[Any] | Sequence[float]) -> Crop:
    """Return the crop of a face that the detector found.

    keypoints: float32[5, 2], left eye, right eye, nose, mouth left, mouth right, in pixels. box: x,
    y, w, h in pixels.
    The weights are least squares fits of what crop_from_mesh gives for the training pictures.
    """
    # Complex numbers turn by a product, and of so few plain numbers are faster than arrays.
    pairs = np.asarray(keypoints, np.float64).tolist()
    left_eye, right_eye, nose, *mouth_corners = (complex(x, y) for x, y in pairs)
    eyes, mouth = (left_eye + right_eye) / 2, sum(mouth_corners) / 2
    apart, down = left_eye - right_eye, mouth - eyes
    # The eyes come close in profile and say little then; the way down to the mouth does not.
    level = apart - 0.5j * down
    angle = math.atan2(level.imag, level.real)
    turn = complex(math.cos(angle), math.sin(angle))
    left, top, width, height = (float(value) for value in box)
    centre = complex(left + width / 2, top + height / 2)
    below = [each * turn.conjugate() for each in (nose - eyes, centre - eyes, down)]
    x = _weighted(X_WEIGHTS, [each.real for each in below])
    y = _weighted(Y_WEIGHTS, [each.imag for each in below])
    side = _weighted(SIDE_WEIGHTS, [abs(down), abs(apart), max(width, height)])
    start = complex(x, y) * turn + eyes
    return Crop(start.real, start.imag, max(side, 1.0) * MARGIN, angle)


def crop_from_mesh(points: NDArray[Any]) -> Crop:
    """Return the crop round a mesh: MediaPipe's, but its box lies level with the eyes.

    points: float32[468 or more, 2 or more], in pixels.
    """
    # Rows of coordinates: the least and largest of a row are found faster than of a column.
    flat = np.array(np.asarray(points)[:MESH_POINTS, :2].T, np.float64, order="C")
    across = flat[:, LEFT_EYE_CORNERS].sum(axis=1) - flat[:, RIGHT_EYE_CORNERS].sum(axis=1)
    angle = math.atan2(across[1], across[0])
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    level = turn @ flat
    low, high = level.min(axis=1), level.max(axis=1)
    centre = turn.T @ ((low + high) / 2)
    side = max(float((high - low).max()), 1.0) * MARGIN
    return Crop(float(centre[0]), float(centre[1]), side, angle)


def _weighted(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))
