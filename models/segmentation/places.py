"""Places: parts without anybody of pictures with people, as scenes that others are set on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from palmkit.models.segmentation.crop import Flags

# The least side of a place, in pixels, and the least of the picture that it is.
SIDE, SHARE = 80, 0.12
# Labels are searched in blocks of so many pixels a side.
BLOCK = 4
# Of a label's 255: the most of a person, and the least trust, in a place.
NOBODY, CERTAIN = 25, 250


def place_of(label: npt.NDArray[np.uint8]) -> tuple[int, int, int, int] | None:
    """Return left, top, right, bottom of the largest part where nobody is; None if it is small.

    label: uint8[h, w, 3], target and trust, as in labels.py.
    """
    height, width = (length // BLOCK * BLOCK for length in label.shape[:2])
    free = (label[:height, :width, 0] <= NOBODY) & (label[:height, :width, 1] >= CERTAIN)
    by_block = free.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK)
    blocks = np.asarray(by_block.all(axis=(1, 3)), np.bool_)
    left, top, right, bottom = (BLOCK * edge for edge in largest_rectangle(blocks))
    if min(right - left, bottom - top) < SIDE:
        return None
    if (right - left) * (bottom - top) < SHARE * label.shape[0] * label.shape[1]:
        return None
    return left, top, right, bottom


def largest_rectangle(free: Flags) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom of the largest rectangle that is all free; zeros if none.

    For each row, of the rectangles that end with it, the largest under the skyline of free columns.
    """
    best, area = (0, 0, 0, 0), 0
    heights = np.zeros(free.shape[1] + 1, np.int64)
    for row, line in enumerate(free, 1):
        heights[:-1] = np.where(line, heights[:-1] + 1, 0)
        # Columns where a rectangle may begin, with its height, which rises from left to right.
        open_: list[tuple[int, int]] = []
        for column, high in enumerate(heights.tolist()):
            start = column
            while open_ and open_[-1][1] >= high:
                start, tall = open_.pop()
                if tall * (column - start) > area:
                    area, best = tall * (column - start), (start, row - tall, column, row)
            open_.append((start, high))
    return best
