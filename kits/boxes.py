"""Boxes as corners, float32[n, 4] of x1, y1, x2, y2 in pixels."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Boxes: TypeAlias = NDArray[np.floating[Any]]


def areas(boxes: Boxes) -> Floats:
    """Return the areas[n]; an empty or inside-out box has area 0."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 0)
    return np.asarray(sides[:, 0] * sides[:, 1], np.float32)


def corners(boxes: Boxes) -> Boxes:
    """Return the corners, [n, 4], of boxes[n, 4] given as x, y, width, height."""
    return np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)


def shared_areas(a: Boxes, b: Boxes) -> Boxes:
    """Return the area that every box of a[n, 4] shares with every one of b[m, 4]: [n, m]."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = np.maximum(high - low, 0)
    shared: Boxes = sides[..., 0] * sides[..., 1]
    return shared


def covered(boxes: Boxes, regions: Boxes) -> Floats:
    """Return the largest share[n] of every one of boxes[n, 4] that one of regions[m, 4] covers.

    It is 0 where there is no region, and of a box without an area.
    """
    shared = shared_areas(boxes, regions).max(axis=1, initial=0)
    return np.asarray(shared / np.maximum(areas(boxes), 1e-6), np.float32)


def box_round(points: Floats) -> Floats:
    """Return the box round points[..., n, 2 or more], at least one: corners, float32[..., 4]."""
    # The minimum of a row is found several times as fast as that of a column.
    axes = np.ascontiguousarray(points[..., :2].swapaxes(-1, -2))
    return np.concatenate([axes.min(axis=-1), axes.max(axis=-1)], axis=-1)


def clipped(boxes: Boxes, width: int, height: int) -> Floats:
    """Return boxes[n, 4] clipped to a picture of this size; one beside it has no area."""
    sides = np.array([width, height, width, height], np.float32)
    return np.asarray(np.minimum(np.maximum(boxes, 0), sides), np.float32)


def iou(a: Boxes, b: Boxes) -> Floats:
    """Return the IoU of every box of a[n, 4] with every one of b[m, 4]: float32[n, m]."""
    shared = shared_areas(a, b)
    union = areas(a)[:, None] + areas(b)[None, :] - shared
    zeros = np.zeros(shared.shape, np.float32)
    return np.asarray(np.divide(shared, union, out=zeros, where=union > 0), np.float32)


def distance_iou(a: Boxes, b: Boxes) -> Floats:
    """Return IoU minus squared centre distance over the squared diagonal of the hull: [n, m].

    -1 (far apart) to 1 (the same). Zheng et al., Distance-IoU Loss, arXiv 1911.08287.
    """
    centres_a, centres_b = (a[:, :2] + a[:, 2:]) / 2, (b[:, :2] + b[:, 2:]) / 2
    distance = np.square(centres_a[:, None] - centres_b[None]).sum(axis=2)
    low = np.minimum(a[:, None, :2], b[None, :, :2])
    high = np.maximum(a[:, None, 2:], b[None, :, 2:])
    diagonal = np.maximum(np.square(high - low).sum(axis=2), np.finfo(np.float32).tiny)
    return np.asarray(iou(a, b) - distance / diagonal, np.float32)


def nms(boxes: Boxes, scores: Boxes, max_iou: float) -> NDArray[np.int64]:
    """Return indices of boxes that no better one overlaps by more than `max_iou`, best first."""
    return weighted_nms(boxes, scores, np.zeros((len(boxes), 0), np.float32), max_iou, 1)[0]


def weighted_nms(
    boxes: Boxes, scores: Boxes, values: Boxes, max_iou: float, blend_iou: float
) -> tuple[NDArray[np.int64], Floats]:
    """Do nms, and average values[n, m] of each box and those it suppresses, by score.

    blend_iou: only those that overlap it by more than this count; with 0 it is the blending of
    BlazeFace (Bazarevsky et al., arXiv 1907.05047). The mean is steadier than the best box alone.
    Returns the indices of the boxes kept, best first, and float32[kept, m].
    """
    left = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    means: list[Boxes] = []
    while len(left):
        overlaps = iou(boxes[left[:1]], boxes[left])[0]
        # A box without area does not even overlap itself.
        overlaps[0] = np.inf
        alike = left[overlaps > max(max_iou, blend_iou)]
        weights = np.maximum(scores[alike], np.finfo(np.float32).tiny)
        means.append(weights @ values[alike] / weights.sum())
        kept.append(int(left[0]))
        left = left[overlaps <= max_iou]
    return np.array(kept, np.int64), np.array(means, np.float32).reshape(len(kept), values.shape[1])
