"""Which way up the faces of a picture are: of people who lie, and in pictures held sideways.

The networks know faces, heads and people that are turned by 45 degrees at most. Where no face of a
picture is beyond doubt, the picture is looked at in the three other quarter turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.frames import Box
from palmkit.kits.detection import Candidates
from palmkit.kits.image import Image, resize
from palmkit.kits.quarter_turns import corners_back, points_back, turned
from palmkit.kits.results import Face

# With a face of this score a picture is upright; if it has none, a turned one with such a face is,
# if that is surer by so much. Chosen on the dev split, of whose pictures none is then turned.
SURE, SURER = 0.87, 0.1
# Larger pictures are looked at in so many pixels, the longer side.
SMALL = 640
# How sure where one look in so many pixels says so, chosen on dev and held-out pictures. In a pixel
# less than the search's second size nothing is seen closer, by plans that the model has.
GLANCE_SIZE, GLANCE_SURE, GLANCE_SURER = 319, 0.75, 0.2


class _Scored(Protocol):
    @property
    def scores(self) -> NDArray[np.float32]: ...


Found = TypeVar("Found", bound=_Scored)


def upright(
    image: Image,
    find: Callable[[Image], Found],
    found: Found,
    sure: float = SURE,
    surer: float = SURER,
) -> tuple[int, Found]:
    """Return by how many quarters a picture is turned until its faces are upright, and the faces.

    Large pictures are looked at in few pixels, in which the faces of a turned one then are. find:
    finds the faces of a picture. found: those of the picture as it comes, which are returned with 0
    unless those of a turned one are surer. Turns are counterclockwise. sure, surer: as SURE and
    SURER.
    """
    best = _best(found)
    if best >= sure:
        return 0, found
    height, width = image.shape[:2]
    scale = min(SMALL / max(height, width), 1)
    small = resize(image, max(round(height * scale), 1), max(round(width * scale), 1))
    quarters, score = 0, max(sure, best + surer)
    for each in (1, 2, 3):
        seen = find(turned(small, each))
        if (best := _best(seen)) > score:
            quarters, score, found = each, best, seen
    return quarters, found


def upright_faces(image: Image, find: Callable[[Image], Found], found: Found) -> tuple[int, Found]:
    """Return what `upright` does, with a turned picture's faces as all its pixels show them."""
    quarters, seen = upright(image, find, found)
    if not quarters or max(image.shape[:2]) <= SMALL:
        return quarters, seen
    seen = find(turned(image, quarters))
    # Seen closely all may be gone.
    return (quarters, seen) if len(seen.scores) else (0, found)


def quarters_of(face: Face) -> int:
    """Return by how many quarters, counterclockwise, a picture is turned until a face stands."""
    return round(face.angle / (math.pi / 2)) % 4


def turned_back(found: Candidates, quarters: int, area: Box) -> Candidates:
    """Return what was found in an area turned by so many quarters, in pixels of the picture.

    area: left, top, right, bottom.
    """
    boxes = corners_back(found.boxes, quarters, area)
    return Candidates(boxes, found.scores, points_back(found.keypoints, quarters, area))


def _best(found: _Scored) -> float:
    return float(found.scores.max(initial=0))
