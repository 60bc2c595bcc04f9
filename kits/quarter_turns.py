"""Pictures turned by quarters, counterclockwise, and where places in them lie.

An area is left, top, right and bottom in pixels of the picture, of which it is a part.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.frames import Box
from palmkit.kits.boxes import Floats
from palmkit.kits.boxes import corners as corners_of
from palmkit.kits.image import Image


def turned(image: Image, quarters: int) -> Image:
    """Return a picture turned by none to three quarters; by none it is returned itself."""
    import cv2

    if not quarters:
        return image
    codes = cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_CLOCKWISE
    return cast(Image, cv2.rotate(image, codes[quarters - 1]))


def points_back(points: NDArray[Any], quarters: int, area: Box) -> NDArray[Any]:
    """Return points[..., 2] of an area that was turned by so many quarters, in the picture."""
    left, top, right, bottom = area
    x, y = points[..., 0], points[..., 1]
    places = (
        (left + x, top + y),
        (right - y, top + x),
        (right - x, bottom - y),
        (left + y, bottom - x),
    )
    return np.stack(places[quarters], axis=-1)


def corners_back(corners: Floats, quarters: int, area: Box) -> Floats:
    """Return boxes, corners float32[n, 4], of an area that was turned so, in the picture."""
    pairs = points_back(corners.reshape(-1, 2, 2), quarters, area)
    return np.concatenate([pairs.min(axis=1), pairs.max(axis=1)], axis=1)


def turned_corners(corners: Floats, quarters: int, area: Box) -> Floats:
    """Return boxes of the picture, corners float32[n, 4], in an area of it that is turned so."""
    left, top, right, bottom = area
    width, height = right - left, bottom - top
    size = (height, width) if quarters % 2 else (width, height)
    start = np.array([left, top, left, top], np.float32)
    return corners_back(corners - start, -quarters % 4, (0, 0, *size))


def turned_boxes(boxes: Floats, quarters: int, area: Box) -> Floats:
    """Return boxes of the picture, x, y, w, h, in an area of it that is turned so."""
    places = turned_corners(corners_of(boxes), quarters, area)
    places[:, 2:] -= places[:, :2]
    return places
