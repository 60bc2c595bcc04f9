"""What detections are worth beside the known faces or hands of their pictures.

Greedy matching, best score first, at IoU 0.5; average precision is the area under the interpolated
curve; an unmatched detection that lies by half in a doubtful region counts neither way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palmkit.kits.boxes import covered, iou
from palmkit.models.face_detector.teachers import Array, Detections


class Sample(NamedTuple):
    """A picture's faces, float32[n, 14], doubtful regions, and what was found."""

    faces: Array
    ignored: Array
    found: Detections


class Verdicts(NamedTuple):
    """Every counted detection: float scores, whether it met a face, its size; and the faces."""

    scores: Array
    right: Array
    sizes: Array
    faces: Array


def judge(samples: Sequence[Sample]) -> Verdicts:
    """Match detections with faces; a correct one takes the face's size."""
    scores: list[float] = []
    right: list[float] = []
    sizes: list[float] = []
    every: list[float] = []
    for faces, ignored, found in samples:
        face_sizes = (faces[:, 2:4] - faces[:, :2]).max(axis=1, initial=0)
        every += face_sizes.tolist()
        overlaps = iou(found.boxes, faces[:, :4])
        free = np.ones(len(faces), bool)
        for row in np.argsort(-found.scores, kind="stable"):
            box = found.boxes[row]
            best = int(np.where(free, overlaps[row], -1).argmax()) if len(faces) else -1
            met = best >= 0 and bool(free[best]) and overlaps[row, best] >= 0.5
            if met:
                free[best] = False
            elif covered(box[None], ignored)[0] > 0.5:
                continue
            scores.append(float(found.scores[row]))
            right.append(float(met))
            sizes.append(float(face_sizes[best] if met else (box[2:] - box[:2]).max()))
    return Verdicts(*(np.asarray(each, np.float32) for each in (scores, right, sizes, every)))


def average_precision(
    verdicts: Verdicts, threshold: float = 0.0, low: float = 0.0, high: float = float("inf")
) -> float:
    """Return the area under the interpolated curve for faces of a size; NaN without any."""
    faces = int(((verdicts.faces >= low) & (verdicts.faces < high)).sum())
    counted = (verdicts.sizes >= low) & (verdicts.sizes < high) & (verdicts.scores >= threshold)
    if faces == 0:
        return float("nan")
    order = np.argsort(-verdicts.scores[counted], kind="stable")
    hits = np.cumsum(verdicts.right[counted][order])
    precision = hits / np.arange(1, len(hits) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((np.diff(hits / faces, prepend=0) * precision).sum())


def recall_at_one_false(verdicts: Verdicts, pictures: int) -> float:
    """Return the recall at the score with one false detection a picture."""
    order = np.argsort(-verdicts.scores, kind="stable")
    right = verdicts.right[order]
    allowed = np.cumsum(1 - right) <= pictures
    return float(right[allowed].sum() / max(len(verdicts.faces), 1))


def point_error(samples: Sequence[Sample]) -> float:
    """Return the mean distance of points over the true eyes' distance, for matched faces."""
    errors: list[float] = []
    for faces, _, found in samples:
        overlaps = iou(faces[:, :4], found.boxes)
        for face, overlap in zip(faces, overlaps, strict=True):
            if len(overlap) and overlap.max() >= 0.5:
                true = face[4:].reshape(5, 2)
                apart = np.linalg.norm(found.points[overlap.argmax()] - true, axis=1)
                errors.append(float(np.nanmean(apart) / np.linalg.norm(true[0] - true[1])))
    return float(np.mean(errors)) if errors else float("nan")


def f1(sample: Sample) -> float:
    """Return the harmonic mean of precision and recall of one picture; 1 where nothing counts."""
    verdicts = judge([sample])
    either = len(verdicts.faces) + len(verdicts.scores)
    return float(2 * verdicts.right.sum() / either) if either else 1.0
