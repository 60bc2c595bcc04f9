"""Which way up the faces of a picture are: of people who lie, and in pictures held sideways.

The networks know faces, heads and people that are turned by 45 degrees at most. Where no face of a
picture is beyond doubt, the picture is looked at in the three other quarter turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.frames import Box
from palmkit.kits.boxes import Floats, corners
from palmkit.kits.detection import Candidates
from palmkit.kits.image import Image, resize
from palmkit.kits.results import Face

# With a face of this score a picture is upright; if it has none, a turned one with such a face is,
# if that is surer by so much. Chosen on the dev split, of whose pictures none is then turned.
SURE, SURER = 0.87, 0.1
# Larger pictures are looked at in so many pixels, the longer side, for which way is up.
SMALL = 640
# How sure where one look in so many pixels says so, with nothing seen closer, chosen on dev and
# held-out pictures.
GLANCE_SIZE, GLANCE_SURE, GLANCE_SURER = 288, 0.75, 0.2


class _Scored(Protocol):
    @property
    def scores(self) -> NDArray[np.float32]: ...


Found = TypeVar("Found", bound=_Scored)


def turned(image: Image, quarters: int) -> Image:
    """Return a picture turned counterclockwise by one to three quarters."""
    import cv2

    codes = cv2.ROTATE_90_COUNTERCLOCKWISE, cv2.ROTATE_180, cv2.ROTATE_90_CLOCKWISE
    return cast(Image, cv2.rotate(image, codes[quarters - 1]))


def upright(
    image: Image,
    find: Callable[[Image], Found],
    found: Found,
    sure: float = SURE,
    surer: float = SURER,
) -> tuple[int, Found]:
    """Return by how many quarters a picture is turned until its faces are upright, and the faces.

    find: finds the faces of a picture. found: those of the picture as it comes, which are returned
    with 0 unless those of a turned one are surer. Turns are counterclockwise. sure, surer: as SURE
    and SURER.
    """
    best = _best(found)
    if best >= sure:
        return 0, found
    height, width = image.shape[:2]
    scale = SMALL / max(height, width)
    small = image
    if scale < 1:
        small = resize(image, max(round(height * scale), 1), max(round(width * scale), 1))
    quarters, score, others = 0, max(sure, best + surer), found
    for each in (1, 2, 3):
        seen = find(turned(small, each))
        if (best := _best(seen)) > score:
            quarters, score, others = each, best, seen
    if quarters and small is not image:
        others = find(turned(image, quarters))
        # Seen closely all may be gone.
        if not len(others.scores):
            return 0, found
    return quarters, others


def quarters_of(face: Face) -> int:
    """Return by how many quarters, counterclockwise, a picture is turned until a face stands."""
    return round(face.angle / (math.pi / 2)) % 4


def turned_boxes(boxes: Floats, quarters: int, area: Box) -> Floats:
    """Return boxes of a picture, x, y, w, h, in an area of it that is turned by so many quarters.

    area: left, top, right, bottom.
    """
    left, top, right, bottom = area
    width, height = right - left, bottom - top
    size = (height, width) if quarters % 2 else (width, height)
    start = np.array([left, top], np.float32)
    places = _corners(corners(boxes).reshape(-1, 2, 2) - start, 4 - quarters, (0, 0, *size))
    places[:, 2:] -= places[:, :2]
    return places


def turned_back(found: Candidates, quarters: int, area: Box) -> Candidates:
    """Return what was found in an area turned by so many quarters, in pixels of the picture.

    area: left, top, right, bottom.
    """
    boxes = _corners(found.boxes.reshape(-1, 2, 2), quarters, area)
    return Candidates(boxes, found.scores, _back(found.keypoints, quarters, area))


def _corners(pairs: Floats, quarters: int, area: Box) -> Floats:
    """Return the corners of boxes in the picture, of two opposite ones in the turned area."""
    back = _back(pairs, quarters, area)
    return np.concatenate([back.min(axis=1), back.max(axis=1)], axis=1)


def _back(points: Floats, quarters: int, area: Box) -> Floats:
    """Return points of an area that was turned by so many quarters as they lie in the picture."""
    left, top, right, bottom = area
    x, y = points[..., 0], points[..., 1]
    places = {1: (right - y, top + x), 2: (right - x, bottom - y), 3: (left + y, bottom - x)}
    return np.stack(places[quarters], axis=-1, dtype=np.float32)


def _best(found: _Scored) -> float:
    return float(found.scores.max(initial=0))
