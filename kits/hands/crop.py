"""The square of the picture that the landmark network sees of a hand.

It is rotated so that the direction from the wrist (landmark 0) to the base of the middle finger
(landmark 9) points up, holds the whole hand with room round it, and hardly changes in size when
fingers open and close, so that a hand can be followed from one frame to the next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.crop import Crop

WRIST, MIDDLE_BASE = 0, 9
# Pairs of landmarks with the length of the palm over theirs, in a flat hand.
PALM_SPANS = ((0, 9, 1.0), (0, 5, 1.0), (0, 17, 1.08), (5, 17, 1.55))
HAND_MARGIN = 1.45
PALM_MARGIN = 2.5
DIAGONAL_EXCESS = 0.25


def palm_size(landmarks: NDArray[Any]) -> float:
    """Return the length from wrist to base of the middle finger, as if the hand lay flat.

    landmarks: float[21, 2 or more]; the result has the unit of its x and y. It is the longest of
    several spans of the palm, because one alone shortens when it points towards the camera.
    """
    flat = np.asarray(landmarks, np.float64)[:, :2]
    return max(float(np.hypot(*(flat[a] - flat[b]))) * share for a, b, share in PALM_SPANS)


def crop_from_landmarks(landmarks: NDArray[Any]) -> Crop:
    """Return the crop round a hand with known landmarks: float[21, 2 or more], pixels."""
    flat = np.asarray(landmarks, np.float64)[:, :2]
    angle = _angle(flat[WRIST], flat[MIDDLE_BASE])
    cos, sin = math.cos(angle), math.sin(angle)
    turned = flat @ np.array([[cos, -sin], [sin, cos]])
    low, high = turned.min(axis=0), turned.max(axis=0)
    centre = np.array([[cos, -sin], [sin, cos]]) @ ((low + high) / 2)
    side = max(HAND_MARGIN * float((high - low).max()), PALM_MARGIN * palm_size(flat), 1.0)
    return Crop(float(centre[0]), float(centre[1]), side, angle)


def crop_from_keypoints(keypoints: NDArray[Any], box: NDArray[Any]) -> Crop:
    """Return the crop round a hand that the detector found.

    keypoints: float[2, 2], wrist and base of the middle finger; box: float[4], x, y, w, h round the
    whole hand; all in pixels.
    """
    points = np.asarray(keypoints, np.float64)
    left, top, width, height = (float(value) for value in box)
    angle = _angle(points[0], points[1])
    # An upright box grows as the hand in it turns to the diagonal.
    longest = max(width, height) / (1 + DIAGONAL_EXCESS * abs(math.sin(2 * angle)))
    palm = float(np.hypot(*(points[1] - points[0])))
    side = max(HAND_MARGIN * longest, PALM_MARGIN * palm, 1.0)
    return Crop(left + width / 2, top + height / 2, side, angle)


def _angle(wrist: NDArray[np.float64], middle: NDArray[np.float64]) -> float:
    """Return the hand's clockwise rotation from pointing up, in radians."""
    along = middle - wrist
    return math.atan2(float(along[0]), -float(along[1]))
