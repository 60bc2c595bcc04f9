"""Regions of a face as soft masks, from the 478 points of its mesh.

Point numbers are those of palmkit.kits.face.topology; right and left are the subject's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
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
# How much finer, for up to how many pixels.
_FINENESS = ((8, 1 << 12), (4, 1 << 15), (2, 1 << 17))
# Points that a curve gets between two of the mesh.
_FINER = 4


def left(points: Sequence[int]) -> tuple[int, ...]:
    """Return the same points of the other half of the face."""
    return tuple(int(topology.MIRROR[point]) for point in points)


def curve(points: Floats, closed: bool) -> Floats:
    """Return a smooth line through float32[n, 2], with four times as many points.

    A Catmull-Rom spline (Catmull and Rom, A Class of Local Interpolating Splines, 1974).
    """
    return np.asarray(_spline(len(points), closed) @ points, np.float32)


@lru_cache(maxsize=64)
def _spline(count: int, closed: bool) -> Floats:
    """Return the weights of the given points in each point of a curve, float32[m, n]."""
    points = np.eye(count, dtype=np.float32)
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
    line = found.transpose(1, 0, 2).reshape(-1, count)
    return np.ascontiguousarray(line if closed else line[: -_FINER + 1], np.float32)


def fixed(points: Floats, finer: int = 1) -> NDArray[np.int32]:
    """Return positions as OpenCV's fixed-point numbers, with pixel centres at integers.

    finer: of how many pixels of a side one is made.
    """
    return np.asarray(np.rint((points * finer - 0.5) * (1 << _SHIFT)), np.int32)


def fill(shape: tuple[int, ...], *loops: Floats) -> Floats:
    """Fill closed lines, with antialiased edges: float32[h, w], 0..1."""
    finer = _finer(shape)
    return _paint(shape, finer, [fixed(loop, finer) for loop in loops])


def band(shape: tuple[int, ...], line: Floats, other: Floats, closed: bool) -> Floats:
    """Fill the area between two lines of as many points, also where it folds, as `fill`."""
    finer = _finer(shape)
    a, b = fixed(line, finer), fixed(other, finer)
    quads = np.stack([a, np.roll(a, -1, axis=0), np.roll(b, -1, axis=0), b], axis=1)
    return _paint(shape, finer, [*(quads if closed else quads[:-1])])


def _finer(shape: tuple[int, ...]) -> int:
    """Return how much finer a region is drawn: the smaller it is, the more its edges count."""
    return next((finer for finer, most in _FINENESS if shape[0] * shape[1] <= most), 1)


def _paint(shape: tuple[int, ...], finer: int, loops: list[NDArray[np.int32]]) -> Floats:
    """Fill the union of the loops.

    OpenCV's edges are off by up to half a pixel where they are flat, and jump when they move by a
    sixteenth; drawing finer reduces both.
    """
    import cv2

    height, width = shape[:2]
    mask = np.zeros((height * finer, width * finer), np.uint8)
    kind = cv2.LINE_AA if finer == 1 else cv2.LINE_8
    for loop in loops:
        cv2.fillPoly(mask, [loop], 255, kind, _SHIFT)
    if finer > 1:
        mask = cast(
            "NDArray[np.uint8]", cv2.resize(mask, (width, height), interpolation=cv2.INTER_AREA)
        )
    return mask * np.float32(1 / 255)


def soften(mask: Floats, sigma: float) -> Floats:
    """Blur by `sigma` pixels; less than a third of one does nothing."""
    import cv2

    if sigma < 0.34:
        return mask
    return cast(Floats, cv2.GaussianBlur(mask, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE))


def eye(points: Floats, right: bool) -> Floats:
    """Return the line round an open eye."""
    return curve(points[list(topology.RIGHT_EYE if right else topology.LEFT_EYE)], True)


def smoothstep(values: Floats | float, low: float, high: float) -> Floats:
    """Return 0 up to `low`, 1 from `high` on, smooth between; reversed if low > high."""
    t = np.clip(
        (np.asarray(values, np.float32) - np.float32(low)) * np.float32(1 / (high - low)), 0, 1
    )
    return np.asarray(t * t * (3 - 2 * t), np.float32)
