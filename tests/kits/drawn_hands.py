"""Hands drawn from their landmarks, enough like photographs for the networks to see them."""

from collections.abc import Iterable

import cv2
import numpy as np
from numpy.typing import NDArray

from palmkit.kits.hands.skeleton import PALM_HULL, POSES, Pose, limbs
from palmkit.kits.image import Image

SKIN = np.array([222, 170, 138])
# Drawn so many times as large: edges are smooth.
DETAIL = 4


def scene(
    hands: Iterable[tuple[float, float, str | Pose, str]],
    height: int = 360,
    width: int = 640,
    palm: float = 100.0,
) -> Image:
    """Return uint8[height, width, 3] with hands by x, y of the wrist, pose and side."""
    ground = np.full((height, width, 3), (60, 80, 100), np.float64)
    ground *= np.linspace(1.2, 0.8, height)[:, None, None]
    canvas = np.repeat(np.repeat(ground.astype(np.uint8), DETAIL, axis=0), DETAIL, axis=1)
    for x, y, pose, side in hands:
        held = POSES[pose][0] if isinstance(pose, str) else pose
        points = held.landmarks().astype(np.float64) * palm
        points[:, 0] *= 1 if side == "right" else -1
        _paint(canvas, (points + np.array([x, y, 0.0])) * DETAIL, palm * DETAIL)
    canvas = np.asarray(cv2.GaussianBlur(canvas, (0, 0), 0.7 * DETAIL), np.uint8)
    return np.asarray(cv2.resize(canvas, (width, height), interpolation=cv2.INTER_AREA), np.uint8)


def _paint(canvas: Image, points: NDArray[np.float64], palm: float) -> None:
    flat = points[:, :2]
    elbow = flat[0] + 1.6 * (flat[0] - flat[9])
    _limb(canvas, flat[0], elbow, 0.26 * palm, 0.3 * palm, 0.93)
    hull = cv2.convexHull(flat[list(PALM_HULL)].astype(np.int32))
    cv2.fillPoly(canvas, [hull], _shade(0.97), cv2.LINE_AA)
    for limb in limbs(points, palm):
        _limb(canvas, *limb)


def _limb(
    canvas: Image,
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    near: float,
    far: float,
    share: float,
) -> None:
    for part in np.linspace(0, 1, 24):
        x, y = (round(float(value)) for value in start + part * (end - start))
        radius = round(float(near + part * (far - near)))
        cv2.circle(canvas, (x, y), radius, _shade(share), -1, cv2.LINE_AA)


def _shade(share: float) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in np.clip(SKIN * share, 0, 255))
    return red, green, blue
