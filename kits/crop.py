"""Rotated squares of a picture, the inputs of the landmark networks.

A crop's own coordinates run from 0 to 1 from its top left corner, x to the right and y down when
its content stands upright. Pixels are areas: pixel 0 of a picture covers 0 to 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image


@dataclass(frozen=True)
class Crop:
    """A rotated square of a picture.

    x, y: its centre, in pixels of the picture. side: in pixels, above 0. angle: clockwise rotation
    of its content in the picture, in radians.
    """

    x: float
    y: float
    side: float
    angle: float = 0.0

    def matrix(self, size: float = 1.0) -> NDArray[np.float64]:
        """Return float64[2, 3], from (x, y, 1) of the picture to the crop drawn `size` wide."""
        scale = size / self.side
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        start = (size / 2 - cos * self.x - sin * self.y, size / 2 + sin * self.x - cos * self.y)
        return np.array([[cos, sin, start[0]], [-sin, cos, start[1]]])

    def inverse(self, size: float = 1.0) -> NDArray[np.float64]:
        """Return float64[2, 3], from (x, y, 1) of the crop drawn `size` wide to the picture."""
        scale = self.side / size
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        half = size / 2
        start = (self.x - (cos - sin) * half, self.y - (sin + cos) * half)
        return np.array([[cos, -sin, start[0]], [sin, cos, start[1]]])

    @property
    def up(self) -> tuple[float, float]:
        """The picture's upward direction, x and y of the crop, of length 1."""
        return -math.sin(self.angle), -math.cos(self.angle)

    def to_picture(self, points: NDArray[Any]) -> NDArray[np.float32]:
        """Map points[..., 2 or 3] of the crop to the picture, in pixels; z is scaled equally."""
        return _mapped(points, self.inverse(), self.side)

    def to_crop(self, points: NDArray[Any]) -> NDArray[np.float32]:
        """Map points[..., 2 or 3] of the picture, in pixels, to the crop; z is scaled equally."""
        return _mapped(points, self.matrix(), 1 / self.side)

    def moved(self, x: float, y: float, scale: float = 1.0, turn: float = 0.0) -> Crop:
        """Return this crop moved by shares of its side along its axes, then scaled and rotated.

        turn: in radians, clockwise.
        """
        cos, sin = math.cos(self.angle) * self.side, math.sin(self.angle) * self.side
        return Crop(
            self.x + cos * x - sin * y,
            self.y + sin * x + cos * y,
            self.side * scale,
            self.angle + turn,
        )


def sample(image: Image, crop: Crop, size: int) -> Image:
    """Draw a crop: uint8[size, size, 3].

    image: uint8[h, w, 3]. It is halved by pixel areas while twice as large as needed, then drawn
    bilinearly; beyond its border the border's pixels go on. A crop wholly outside is black.
    """
    import cv2

    reach = crop.side / 2 * (abs(math.cos(crop.angle)) + abs(math.sin(crop.angle))) + 2
    left, top = max(int(crop.x - reach), 0), max(int(crop.y - reach), 0)
    right = min(math.ceil(crop.x + reach), image.shape[1])
    bottom = min(math.ceil(crop.y + reach), image.shape[0])
    if left >= right or top >= bottom:
        return np.zeros((size, size, 3), np.uint8)
    part = image[top:bottom, left:right]
    matrix = crop.matrix(size)
    matrix[:, 2] += matrix[:, :2] @ np.array([left, top])
    shrink = crop.side / size
    # Exact halves are many times as fast for OpenCV as other steps by pixel areas.
    while shrink >= 2 and min(part.shape[:2]) >= 2:
        height, width = part.shape[0] // 2, part.shape[1] // 2
        even = part[: 2 * height, : 2 * width]
        part = cast(Image, cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA))
        matrix[:, :2] *= 2
        shrink /= 2
    # OpenCV counts from the middle of a pixel.
    matrix[:, 2] += matrix[:, :2] @ np.array([0.5, 0.5]) - 0.5
    # It draws four channels, and takes the fourth away again, in half the time of three.
    drawn = cv2.warpAffine(
        cv2.cvtColor(part, cv2.COLOR_RGB2RGBA),
        matrix,
        (size, size),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return cast(Image, cv2.cvtColor(drawn, cv2.COLOR_RGBA2RGB))


def _mapped(points: NDArray[Any], matrix: NDArray[Any], scale: float) -> NDArray[np.float32]:
    # One product of whole rows is faster than one of their first columns.
    axes, shift = np.eye(points.shape[-1]) * scale, np.zeros(points.shape[-1])
    axes[:2, :2], shift[:2] = matrix[:, :2], matrix[:, 2]
    return np.asarray(points @ axes.T + shift, np.float32)
