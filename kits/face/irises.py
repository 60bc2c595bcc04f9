"""The irises of a mesh, moved to the dark discs that the picture shows between the lids.

The mesh networks see an eye in some twelve pixels; the picture often has more of them.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import LEFT_EYE_CORNERS, RIGHT_EYE_CORNERS
from palmkit.kits.face.topology import LEFT_EYE, LEFT_IRIS, RIGHT_EYE, RIGHT_IRIS
from palmkit.kits.image import Image

EYES = ((RIGHT_IRIS, RIGHT_EYE), (LEFT_IRIS, LEFT_EYE))
# What is looked at: so many of the iris's radii on each side of its middle, in so many pixels.
REACH, SIDE = 2.2, 48
# Radii of the disc that is dark, and of the ring round it that is not.
DISC, RING = 0.95, (1.05, 1.4)
# The least shares of both that must lie between the lids.
LEAST_DISC, LEAST_RING = 0.3, 0.12
# Levels of 255 beside which the contrast of an eye is nothing.
FAINT = 4.0
# How far, in distances of the eyes, an iris of face_mesh_best is off: chosen on the validation part
# of the training pictures among .01 to .04. A place counts by e to the power of SHARPNESS times its
# score.
SPREAD = 0.02
SHARPNESS = 4.0


def centred(image: Image, points: Floats) -> Floats:
    """Return a mesh, float32[478, 3] in pixels of the image, whose irises are where they are dark.

    An iris that lids hide, or that hardly differs from what is round it, stays about where it was.
    """
    middles = [points[list(eye), :2].mean(axis=0) for eye in (RIGHT_EYE_CORNERS, LEFT_EYE_CORNERS)]
    apart = max(math.dist(*middles), 1.0)
    moved = points.copy()
    for iris, lids in EYES:
        rows = list(iris)
        moved[rows, :2] += _shift(image, points[rows, :2], points[list(lids), :2], apart)
    return moved


def _shift(image: Image, iris: Floats, lids: Floats, apart: float) -> NDArray[np.float64]:
    """Return by how many pixels, x and y, an iris, float32[5, 2], is to be moved."""
    import cv2

    middle = iris.mean(axis=0)
    radius = max(float(np.linalg.norm(iris[1:] - iris[0], axis=1).mean()), 0.5)
    crop = Crop(float(middle[0]), float(middle[1]), 2 * REACH * radius)
    grey = cv2.cvtColor(sample(image, crop, SIDE), cv2.COLOR_RGB2GRAY).astype(np.float32)
    outline = cv2.convexHull(np.asarray(crop.to_crop(lids) * SIDE, np.float32))
    between = np.zeros((SIDE, SIDE), np.float32)
    cv2.fillConvexPoly(between, outline.astype(np.int32), (1.0,))
    if not between.any():
        return np.zeros(2)
    seen: list[NDArray[Any]] = []
    is_seen = np.ones((SIDE, SIDE), np.bool_)
    for part, least in zip(_parts(), (LEAST_DISC, LEAST_RING), strict=True):
        weight = _sums(between, part)
        is_seen &= weight > least * part.sum()
        seen.append(_sums(grey * between, part) / np.maximum(weight, 1))
    if not is_seen.any():
        return np.zeros(2)
    x, y = np.meshgrid(*[(np.arange(SIDE) + 0.5) * (2 * REACH / SIDE) - REACH] * 2)
    contrast = (seen[1] - seen[0]) / (float(grey[between > 0].std()) + FAINT)
    off = (x**2 + y**2) * (radius / apart) ** 2
    score = np.where(is_seen, contrast - off / (2 * SPREAD**2), -np.inf)
    weight = np.exp(SHARPNESS * (score - score.max()))
    shift = np.array([(weight * x).sum(), (weight * y).sum()], np.float64)
    return shift * (radius / float(weight.sum()))


@cache
def _parts() -> tuple[Floats, Floats]:
    """Return the disc and the ring, as weights of a filter."""
    step = 2 * REACH / SIDE
    reach = math.ceil(RING[1] / step)
    across = np.arange(-reach, reach + 1) * step
    distance = np.hypot(*np.meshgrid(across, across))
    ring = (distance > RING[0]) & (distance < RING[1])
    return (distance < DISC).astype(np.float32), ring.astype(np.float32)


def _sums(values: NDArray[Any], part: Floats) -> Floats:
    """Return the sums round each place; beyond the border is nothing."""
    import cv2

    return cast(Floats, cv2.filter2D(values, -1, part, borderType=cv2.BORDER_CONSTANT))
