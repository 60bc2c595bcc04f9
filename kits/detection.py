"""A detector's network, of faces or hands: its inputs and the meaning of its outputs.

Input `image`: float32[1, height, width, 3], RGB, 0..255, sides multiples of 32. Outputs for each
stride s of 8, 16, 32, one cell for each s x s pixels:

score_s: float32[1, height / s, width / s, 1], 0..1;

box_s: float32[1, height / s, width / s, 4], distances from the cell's centre to the left, top,
right and bottom side, in strides;

points_s: float32[1, height / s, width / s, 2 k], x, y from the cell's centre of the k keypoints, in
strides: for a face left_eye, right_eye, nose, mouth_left, mouth_right; for a hand the wrist and the
base of the middle finger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ModelError
from palmkit.kits.boxes import Floats, areas, shared_areas, weighted_nms

STRIDES = (8, 16, 32)
SIDE_MULTIPLE = 32
# Left and top lie before the centre.
ONE_SIDED = np.array([-1, -1, 1, 1], np.float32)
MAX_IOU = 0.45
BLEND_IOU = 0.8
# What lies so far within a likelier box is a part of the same thing.
MAX_INSIDE = 0.9


@dataclass(frozen=True, eq=False)
class Candidates:
    """Detected faces or hands, possibly the same one many times, in pixels.

    boxes: float32[n, 4], corners; scores: float32[n]; keypoints: float32[n, k, 2].
    """

    boxes: Floats
    scores: Floats
    keypoints: Floats

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.scores)

    def take(self, rows: NDArray[Any]) -> Candidates:
        """Return the detections at these indices, or where this mask is true."""
        return Candidates(self.boxes[rows], self.scores[rows], self.keypoints[rows])

    @staticmethod
    def joined(parts: list[Candidates]) -> Candidates:
        """Return all detections of at least one part, in order."""
        if len(parts) == 1:
            return parts[0]
        return Candidates(
            np.concatenate([part.boxes for part in parts]),
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.keypoints for part in parts]),
        )


def decode(outputs: Mapping[str, NDArray[Any]], min_score: float, keypoints: int = 5) -> Candidates:
    """Return the cells that score at least `min_score`, in pixels of the network's input.

    keypoints: how many an object has; points_s has twice as many channels. Cells with values that
    are not finite, or a box without area, are left out.
    Raises ModelError if an output is missing or has another shape than the module describes.
    """
    cells = [_decode_stride(outputs, stride, min_score, keypoints) for stride in STRIDES]
    scores, values = (np.concatenate(each) for each in zip(*cells, strict=True))
    has_area = (values[:, 0] < values[:, 2]) & (values[:, 1] < values[:, 3])
    kept = np.flatnonzero(np.isfinite(values).all(axis=1) & has_area)
    values = values[kept]
    return Candidates(values[:, :4], scores[kept], values[:, 4:].reshape(-1, keypoints, 2))


def _decode_stride(
    outputs: Mapping[str, NDArray[Any]], stride: int, min_score: float, count: int
) -> tuple[Floats, Floats]:
    """Return scores[n], and corners and points[n, 4 + 2 * count] of the cells, in pixels."""
    scores = _cells(outputs, f"score_{stride}", 1)[:, :, 0]
    boxes = _cells(outputs, f"box_{stride}", 4)
    points = _cells(outputs, f"points_{stride}", 2 * count)
    rows, columns = np.nonzero(scores >= min_score)
    values = np.empty((len(rows), 4 + 2 * count), np.float32)
    if len(rows):
        values[:, :4] = boxes[rows, columns] * ONE_SIDED
        values[:, 4:] = points[rows, columns]
        values[:, ::2] += columns[:, None] + np.float32(0.5)
        values[:, 1::2] += rows[:, None] + np.float32(0.5)
        values *= stride
    return scores[rows, columns], values


def _cells(outputs: Mapping[str, NDArray[Any]], name: str, channels: int) -> Floats:
    output = outputs.get(name)
    if output is None or output.ndim != 4 or output.shape[3] != channels:
        got = "nothing" if output is None else f"float32{list(output.shape)}"
        raise ModelError(
            f"not such a detector, output {name}: expected float32[1, h, w, {channels}], got {got}"
        )
    return np.asarray(output[0], np.float32)


def merge(found: Candidates) -> Candidates:
    """Return one row a thing, best first: the mean, by score, of nearly equal candidates."""
    count = found.keypoints.shape[1]
    values = np.concatenate([found.boxes, found.keypoints.reshape(-1, 2 * count)], axis=1)
    kept, means = weighted_nms(found.boxes, found.scores, values, MAX_IOU, BLEND_IOU)
    whole = ~_is_part(means[:, :4])
    means, scores = means[whole], found.scores[kept][whole]
    return Candidates(means[:, :4], scores, means[:, 4:].reshape(-1, count, 2))


def _is_part(boxes: Floats) -> NDArray[np.bool_]:
    """Return which of these boxes, best first, lie within one before them."""
    is_inside = shared_areas(boxes, boxes) > MAX_INSIDE * areas(boxes)[:, None]
    return np.asarray(np.tril(is_inside, -1).any(axis=1))
