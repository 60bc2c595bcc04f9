"""Regions of a face as soft masks, from the 478 points of its mesh.

Point numbers are those of palmkit.kits.face.topology; right and left are the subject's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.tryon.colour import Floats

# From the outer corner over the lid's edge to the inner one, and back below the brow.
RIGHT_LID = (33, 246, 161, 160, 159, 158, 157, 173, 133)
RIGHT_ABOVE_LID = (226, 247, 30, 29, 27, 28, 56, 190, 243)
RIGHT_CHEEK = (116, 117, 118, 101, 205, 187, 147, 123)
# Positions are given to OpenCV in 1/16 pixel.
_SHIFT = 4
# Points that a curve gets between two of the mesh.
_FINER = 4


def left(points: Sequence[int]) -> tuple[int, ...]:
    """The same points of the other half of the face."""
    return tuple(int(topology.MIRROR[point]) for point in points)


def curve(points: Floats, closed: bool) -> Floats:
    """A smooth line through float32[n, 2], four times as many points: centripetal enough for faces.

    A Catmull-Rom spline (Catmull and Rom, A Class of Local Interpolating Splines, 1974).
    """
    if closed:
        before, after, further = (np.roll(points, shift, axis=0) for shift in (1, -1, -2))
    else:
        before = np.concatenate([points[:1], points[:-1]])
        after = np.concatenate([points[1:], points[-1:]])
        further = np.concatenate([points[2:], points[-1:], points[-1:]])
    t = (np.arange(_FINER, dtype=np.float32) / _FINER)[:, None, None]
    found = 0.5 * (
        2 * points
        + (after - before) * t
        + (2 * before - 5 * points + 4 * after - further) * t**2
        + (3 * points - before - 3 * after + further) * t**3
    )
    line = found.transpose(1, 0, 2).reshape(-1, 2)
    return np.asarray(line if closed else line[: -_FINER + 1], np.float32)


def fixed(points: Floats) -> NDArray[np.int32]:
    """Positions as OpenCV's fixed-point numbers; pixel centres are at whole numbers there."""
    return np.asarray(np.rint((points - 0.5) * (1 << _SHIFT)), np.int32)


def fill(shape: tuple[int, ...], *loops: Floats) -> Floats:
    """Closed lines filled, with edges as sharp as pixels are: float32[h, w], 0..1."""
    import cv2

    mask = np.zeros(shape[:2], np.uint8)
    for loop in loops:
        cv2.fillPoly(mask, [fixed(loop)], 255, cv2.LINE_AA, _SHIFT)
    return mask * np.float32(1 / 255)


def band(shape: tuple[int, ...], line: Floats, other: Floats, closed: bool) -> Floats:
    """What lies between two lines of as many points, also where it folds over itself, as `fill`."""
    import cv2

    mask = np.zeros(shape[:2], np.uint8)
    a, b = fixed(line), fixed(other)
    count = len(a) if closed else len(a) - 1
    for row in range(count):
        to = (row + 1) % len(a)
        quad = np.stack([a[row], a[to], b[to], b[row]])
        cv2.fillPoly(mask, [quad], 255, cv2.LINE_AA, _SHIFT)
    return mask * np.float32(1 / 255)


def soften(mask: Floats, sigma: float) -> Floats:
    """Blur by `sigma` pixels; less than a third of one does nothing."""
    import cv2

    if sigma < 0.34:
        return mask
    return cast(Floats, cv2.GaussianBlur(mask, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE))


def eye(points: Floats, right: bool) -> Floats:
    """The line round an open eye."""
    return curve(points[list(topology.RIGHT_EYE if right else topology.LEFT_EYE)], True)


def smoothstep(values: Floats | float, low: float, high: float) -> Floats:
    """0 up to `low`, 1 from `high` on, smooth between; the other way round if low > high."""
    t = np.clip(
        (np.asarray(values, np.float32) - np.float32(low)) * np.float32(1 / (high - low)), 0, 1
    )
    return np.asarray(t * t * (3 - 2 * t), np.float32)
