"""The parts of a picture that are seen closer, each round what may be a small face."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.image import Part

# What may be a face is seen closer in the middle of a square of so many times its size.
REACH = 3


def surroundings(boxes: Floats, area: Part, least: float) -> Iterator[Part]:
    """Yield squares inside the area, each round the first box not shown by earlier ones.

    boxes: corners float32[n, 4], the likeliest first. least: the least side of a square, in pixels.
    """
    waiting = boxes.tolist()
    while waiting:
        x1, y1, x2, y2 = waiting[0]
        size = max(x2 - x1, y2 - y1)
        side = math.ceil(max(size * REACH, least))
        left, width = _centred((x1 + x2) / 2, side, area[0], area[2])
        top, height = _centred((y1 + y2) / 2, side, area[1], area[3])
        part = (left, top, width, height)
        yield part
        waiting = [box for box in waiting[1:] if not _shows(part, size, box, area)]


def _centred(middle: float, length: float, low: float, size: float) -> tuple[float, float]:
    """Return start and length of a range round the middle, not beyond low and low + size."""
    length = min(length, size)
    return min(max(round(middle - length / 2), low), low + size - length), length


def _shows(part: Part, size: float, box: Sequence[float], area: Part) -> bool:
    """Return whether a part shows a box with half its size round it, not much below `size`."""
    own = max(box[2] - box[0], box[3] - box[1])
    return own >= size / 2 and all(
        max(box[axis] - own / 2, area[axis]) >= part[axis]
        and min(box[2 + axis] + own / 2, area[axis] + area[2 + axis]) <= part[axis] + part[2 + axis]
        for axis in (0, 1)
    )


def is_shown(places: Floats, parts: Sequence[Part]) -> NDArray[np.bool_]:
    """Return which places, corners float32[n, 4], lie in a part."""
    corners = np.array(parts, np.float32)
    low, high = corners[:, :2], corners[:, :2] + corners[:, 2:]
    inside = np.concatenate([places[:, None, :2] >= low, places[:, None, 2:] <= high], axis=2)
    return np.asarray(np.any(np.all(inside, axis=2), axis=1), np.bool_)
