"""MediaPipe's palm detector and hand landmarks as plain functions of a picture.

They serve as teachers that label pictures and as the peers of the evaluation. Pre- and
post-processing follow MediaPipe's graphs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from palmkit.kits.boxes import weighted_nms
from palmkit.kits.crop import Crop, sample

Array = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]

PALM_SIZE, HAND_SIZE = 192, 224
PALM_FILE, HAND_FILE = "palm_detection_full.tflite", "hand_landmark_lite.tflite"
# Landmarks whose box MediaPipe follows from one frame to the next.
FOLLOWED = (0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18)


class Palms(NamedTuple):
    """Palms of one picture, in its pixels.

    boxes: float32[n, 4], corners; scores: float32[n]; points: float32[n, 7, 2], wrist, bases of
    the index, middle, ring and little finger, base and middle of the thumb.
    """

    boxes: Array
    scores: Array
    points: Array


class Hand(NamedTuple):
    """The landmark network's result for one crop.

    landmarks: float32[21, 3], x, y in pixels of the picture, z in the same unit. presence: 0..1.
    right: probability of a right hand, the picture not being mirrored.
    """

    landmarks: Array
    presence: float
    right: float


PalmDetector = Callable[[Picture], Palms]
HandReader = Callable[[Picture, Crop], Hand]


@functools.cache
def palm_anchors() -> Array:
    """Return x, y of the anchors' centres, 0..1: float32[2016, 2]."""
    parts: list[Array] = []
    for cells, each in ((24, 2), (12, 6)):
        y, x = np.mgrid[:cells, :cells].astype(np.float32)
        centres = (np.stack([x, y], axis=-1).reshape(-1, 2) + 0.5) / cells
        parts.append(np.repeat(centres, each, axis=0).astype(np.float32))
    return np.concatenate(parts).astype(np.float32)


@functools.cache
def palm_detector(folder: Path, min_score: float = 0.5) -> PalmDetector:
    """Return MediaPipe's palm_detection_full."""
    from palmkit.engine import load
    from palmkit.models.face_detector.teachers import letterbox

    model = load(folder / PALM_FILE)

    def detect(picture: Picture) -> Palms:
        square, scale, corner = letterbox(picture, PALM_SIZE)
        outputs = model.run({"input_1": np.asarray(square, np.float32)[None] / np.float32(255)})
        logits = np.clip(outputs["Identity_1"][0, :, 0], -100, 100)
        scores = 1 / (1 + np.exp(-logits))
        kept = scores >= min_score
        raw = outputs["Identity"][0][kept].reshape(-1, 9, 2)
        anchors = palm_anchors()[kept][:, None] * PALM_SIZE
        centres, sides, points = raw[:, 0] + anchors[:, 0], raw[:, 1], raw[:, 2:] + anchors
        boxes = np.concatenate([centres - sides / 2, centres + sides / 2], axis=1)
        values = np.concatenate([boxes, points.reshape(-1, 14)], axis=1)
        rows, means = weighted_nms(boxes, scores[kept], values, 0.3, 0)
        back = (means.reshape(-1, 9, 2) - np.asarray(corner, np.float32)) / np.float32(scale)
        return Palms(back[:, :2].reshape(-1, 4), scores[kept][rows].astype(np.float32), back[:, 2:])

    return detect


def palm_crop(box: Array, points: Array) -> Crop:
    """Return MediaPipe's crop round a palm: upright from wrist to finger, 2.6 times the box."""
    along = points[2] - points[0]
    angle = math.atan2(float(along[0]), -float(along[1]))
    side = float((box[2:] - box[:2]).max())
    x, y = (float(value) for value in (box[:2] + box[2:]) / 2)
    return Crop(x, y, max(side, 1.0), angle).moved(0, -0.5, 2.6)


def followed_crop(landmarks: Array) -> Crop:
    """Return MediaPipe's crop of the next frame: twice the box of the palm's landmarks."""
    base = 0.25 * (landmarks[5, :2] + landmarks[13, :2]) + 0.5 * landmarks[9, :2]
    along = base - landmarks[0, :2]
    angle = math.atan2(float(along[0]), -float(along[1]))
    cos, sin = math.cos(angle), math.sin(angle)
    turn = np.array([[cos, sin], [-sin, cos]])
    turned = landmarks[list(FOLLOWED), :2] @ turn.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    x, y = turn.T @ ((low + high) / 2)
    side = max(float((high - low).max()), 1.0)
    return Crop(float(x), float(y), side, angle).moved(0, -0.1, 2.0)


@functools.cache
def hand_reader(folder: Path) -> HandReader:
    """Return MediaPipe's hand_landmark_lite."""
    from palmkit.engine import load

    model = load(folder / HAND_FILE)

    def read(picture: Picture, crop: Crop) -> Hand:
        drawn = sample(picture, crop, HAND_SIZE)
        outputs = model.run({"input_1": drawn[None].astype(np.float32) / np.float32(255)})
        inside = outputs["Identity"].reshape(21, 3) / np.float32(HAND_SIZE)
        presence = float(outputs["Identity_1"].reshape(()))
        # MediaPipe's tasks swap the name because they expect a mirrored picture.
        right = float(outputs["Identity_2"].reshape(()))
        return Hand(crop.to_picture(inside), presence, right)

    return read
