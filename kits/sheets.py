"""Places of a picture to be seen closer: few rectangles round many windows, on few sheets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from palmkit.kits.boxes import Floats
from palmkit.kits.image import Part

# Heights and widths of sheets, few so that few shapes are planned, the smallest first.
SHEETS = (
    (256, 256),
    (256, 512),
    (384, 512),
    (512, 512),
    (256, 1024),
    (1024, 256),
    (512, 768),
    (768, 512),
    (512, 1024),
    (1024, 512),
    (768, 1024),
    (1024, 1024),
)
# Pixels of a sheet between two parts, so that neither shows at the other's side.
GAP = 8
# Two rectangles take the place of one round both if they have this share of its area or less;
# GAP on each side counts.
WORTH_CUTTING = 0.85


class Sheet(NamedTuple):
    """Parts of a picture that a network sees at once.

    shape: height and width; parts: x, y, w, h in the picture; cells: the same of the place of each
    part in the sheet. All in pixels.
    """

    shape: tuple[int, int]
    parts: Sequence[Part]
    cells: Sequence[tuple[int, int, int, int]]


def rows(parts: Sequence[Part], side: int, length: int) -> Sheet:
    """Return a sheet of parts, each in a square of `side` pixels, in rows of `length` squares."""
    count = len(parts)
    shape = (math.ceil(count / length) * side, min(count, length) * side)
    cells = [(i % length * side, i // length * side, side, side) for i in range(count)]
    return Sheet(shape, parts, cells)


def windows(boxes: Floats, reach: float, least: float, area: Part) -> Floats:
    """Return windows round boxes[n, 4], inside the area: corners, float32[n, 4].

    reach: from the middle to each side, in longer sides of the box; least: in pixels.
    """
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    longer = (boxes[:, 2:] - boxes[:, :2]).max(axis=1)
    reaches = np.maximum(longer * reach, least)[:, None]
    low, high = np.array(area[:2]), np.add(area[:2], area[2:])
    corners = [np.floor(middles - reaches), np.ceil(middles + reaches)]
    return (
        np.concatenate(corners, axis=1).clip(np.tile(low, 2), np.tile(high, 2)).astype(np.float32)
    )


def rectangles(boxes: Floats, gap: float, most: float) -> list[Floats]:
    """Return rectangles, corners float32[4], of which each box[n, 4] lies in at least one.

    They are cut where that saves area, as grids are refined (Berger and Rigoutsos, An algorithm for
    point clustering and grid generation, 1991), and where a side is longer than `most`, which no
    box's side is. gap: what a rectangle takes on each side besides its own area. In pixels.
    """
    if not len(boxes):
        return []
    hull = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    sides = hull[2:] - hull[:2]
    longest = int(sides.argmax())
    if sides[longest] > most:
        # The first and the last box lie on different sides of the middle.
        middles = (boxes[:, longest] + boxes[:, longest + 2]) / 2
        is_before = middles <= (hull[longest] + hull[longest + 2]) / 2
        groups = [boxes[is_before], boxes[~is_before]]
    else:
        groups, area = [], WORTH_CUTTING * float((sides + gap).prod())
        for axis in (0, 1):
            ordered = boxes[np.argsort(boxes[:, axis] + boxes[:, axis + 2], kind="stable")]
            both = _hull_areas(ordered, gap)[:-1] + _hull_areas(ordered[::-1], gap)[-2::-1]
            if len(both) and (least := float(both.min())) < area:
                area, first = least, int(both.argmin()) + 1
                groups = [ordered[:first], ordered[first:]]
        if not groups:
            return [hull.astype(np.float32)]
    return [part for group in groups for part in rectangles(group, gap, most)]


def _hull_areas(boxes: Floats, gap: float) -> Floats:
    """Return the area of the box round the first, the first two, ...: [n]."""
    low = np.minimum.accumulate(boxes[:, :2], axis=0)
    high = np.maximum.accumulate(boxes[:, 2:], axis=0)
    return np.asarray((high - low + gap).prod(axis=1), np.float32)


def sheets(rectangles: Sequence[Floats], scale: float) -> Iterator[Sheet]:
    """Yield sheets that show rectangles, corners float32[4], enlarged by `scale`.

    Raises ValueError if one is larger than the largest sheet.
    """
    waiting: list[Part] = []
    for left, top, right, bottom in (each.tolist() for each in rectangles):
        waiting.append((left, top, right - left, bottom - top))
    while waiting:
        sizes = [(math.ceil(part[2] * scale), math.ceil(part[3] * scale)) for part in waiting]
        cells: dict[int, tuple[int, int, int, int]] = {}
        shape = SHEETS[0]
        for shape in SHEETS:
            cells = _shelved(sizes, *shape)
            if len(cells) == len(waiting):
                break
        if not cells:
            raise ValueError(
                f"expected parts of at most {shape[1]} x {shape[0]} pixels,"
                f" got {sizes[0][0]} x {sizes[0][1]}"
            )
        yield Sheet(shape, [waiting[row] for row in cells], list(cells.values()))
        waiting = [part for row, part in enumerate(waiting) if row not in cells]


def _shelved(
    sizes: Sequence[tuple[int, int]], height: int, width: int
) -> dict[int, tuple[int, int, int, int]]:
    """Return places, by row, of the widths and heights that find one on shelves, highest first."""
    cells: dict[int, tuple[int, int, int, int]] = {}
    left, top, shelf = 0, 0, 0
    for row in sorted(range(len(sizes)), key=lambda row: -sizes[row][1]):
        wide, high = sizes[row]
        if left and left + wide > width:
            left, top, shelf = 0, top + shelf + GAP, 0
        if wide <= width and top + high <= height:
            cells[row] = (left, top, wide, high)
            left, shelf = left + wide + GAP, max(shelf, high)
    return cells
