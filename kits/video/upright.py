"""Turning frames as their file says: phones note how they were held and do not turn pixels."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from palmkit.kits.image import Image


class Turn(NamedTuple):
    """What brings a frame upright: first its rows become columns, then it is mirrored."""

    is_transposed: bool = False
    is_mirrored: bool = False
    is_upside_down: bool = False

    def apply(self, image: Image) -> Image:
        """Return the picture upright; uint8[h, w, 3]."""
        if not any(self):
            return image
        import cv2

        if self.is_transposed:
            image = cast(Image, cv2.transpose(image))
        if self.is_mirrored and self.is_upside_down:
            return cast(Image, cv2.flip(image, -1))
        if self.is_mirrored or self.is_upside_down:
            return cast(Image, cv2.flip(image, 1 if self.is_mirrored else 0))
        return image


def turn_of(matrix: bytes) -> Turn:
    """Return the turn that a display matrix of a file asks for, to the nearest quarter.

    matrix: int32[3, 3] in memory's order; a point (x, y, 1) times it is where the point is shown.
    """
    if len(matrix) < 36:
        return Turn()
    (a, b), (c, d) = np.frombuffer(matrix[:36], np.int32).reshape(3, 3)[:2, :2].tolist()
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return Turn(False, a < 0, d < 0)
    return Turn(True, c < 0, b < 0)
