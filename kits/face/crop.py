"""The square that the face mesh network looks at: turned so that the eyes are level.

A crop's own coordinates run from 0 to 1 from its top left corner, x to the right and y down as
the face stands upright. Pixels are areas: pixel 0 of a picture covers 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image, resize

# MediaPipe's: the side of the crop over the longer side of the box round the mesh.
MARGIN = 1.5
RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS = (33, 133), (362, 263)
MESH_POINTS = 468
X_WEIGHTS = np.array([-1.191, 0.089, 0.374])
Y_WEIGHTS = np.array([-0.176, -0.074, 0.559])
SIDE_WEIGHTS = np.array([1.262, 0.512, 0.269])


@dataclass(frozen=True)
class Crop:
    """A turned square of a picture.

    x, y: its centre, in pixels of the picture. side: in pixels, above 0.
    angle: by which the face is turned clockwise in the picture, in radians.
    """

    x: float
    y: float
    side: float
    angle: float = 0.0

    def matrix(self, size: float = 1.0) -> NDArray[np.float64]:
        """float64[2, 3], from (x, y, 1) in the picture's pixels to the crop drawn `size` wide."""
        scale = size / self.side
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        start = (size / 2 - cos * self.x - sin * self.y, size / 2 + sin * self.x - cos * self.y)
        return np.array([[cos, sin, start[0]], [-sin, cos, start[1]]])

    def inverse(self, size: float = 1.0) -> NDArray[np.float64]:
        """float64[2, 3], from (x, y, 1) in the crop drawn `size` wide to the picture's pixels."""
        scale = self.side / size
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        half = size / 2
        start = (self.x - (cos - sin) * half, self.y - (sin + cos) * half)
        return np.array([[cos, -sin, start[0]], [sin, cos, start[1]]])

    def to_picture(self, points: NDArray[Any]) -> NDArray[np.float32]:
        """Points[..., 2 or 3] of the crop in the picture, in pixels; z is scaled alike."""
        return _mapped(points, self.inverse(), self.side)

    def to_crop(self, points: NDArray[Any]) -> NDArray[np.float32]:
        """Points[..., 2 or 3] of the picture, in pixels, in the crop; z is scaled alike."""
        return _mapped(points, self.matrix(), 1 / self.side)

    def moved(self, x: float, y: float, scale: float = 1.0, turn: float = 0.0) -> Crop:
        """This crop moved by parts of its side along its own axes, then scaled and turned.

        turn: in radians, clockwise.
        """
        cos, sin = math.cos(self.angle) * self.side, math.sin(self.angle) * self.side
        return Crop(
            self.x + cos * x - sin * y,
            self.y + sin * x + cos * y,
            self.side * scale,
            self.angle + turn,
        )


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


def sample(image: Image, crop: Crop, size: int) -> Image:
    """Draw a crop: uint8[size, size, 3].

    image: uint8[h, w, 3]. It is shrunk by pixel areas, enlarged bilinearly; beyond its border
    the border's pixels go on. A crop that lies wholly outside is black.
    """
    import cv2

    corners = crop.to_picture(np.array([[0, 0], [1, 0], [0, 1], [1, 1]]))
    low, high = corners.min(axis=0) - 2, corners.max(axis=0) + 2
    left, top = (max(int(value), 0) for value in low)
    right = min(math.ceil(high[0]), image.shape[1])
    bottom = min(math.ceil(high[1]), image.shape[0])
    if left >= right or top >= bottom:
        return np.zeros((size, size, 3), np.uint8)
    part = image[top:bottom, left:right]
    shrink = max(crop.side / size, 1.0)
    small = resize(
        part, max(round(part.shape[0] / shrink), 1), max(round(part.shape[1] / shrink), 1)
    )
    across, along = part.shape[1] / small.shape[1], part.shape[0] / small.shape[0]
    matrix = crop.matrix(size)
    matrix[:, 2] += matrix[:, :2] @ np.array([left, top])
    matrix[:, :2] *= np.array([across, along])
    # OpenCV counts from the middle of a pixel.
    matrix[:, 2] += matrix[:, :2] @ np.array([0.5, 0.5]) - 0.5
    drawn = cv2.warpAffine(
        small, matrix, (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return cast(Image, drawn)


def _mapped(points: NDArray[Any], matrix: NDArray[Any], scale: float) -> NDArray[np.float32]:
    out = np.asarray(points, np.float64).copy()
    out[..., :2] = out[..., :2] @ matrix[:, :2].T + matrix[:, 2]
    out[..., 2:] *= scale
    return out.astype(np.float32)
