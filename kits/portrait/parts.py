"""Parts of a picture that are looked at alone, and what is found in them."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.views import Box, areas_of, box_of_people, box_round, span
from palmkit.kits.results import INSIDE

# What is smaller than this part of what was looked at is looked at again, closer.
CLOSER = 0.7
# How much of a mask the largest connected part of small people may be.
SMALL = 0.15
# People of more groups are looked at all together.
MOST_GROUPS = 4
# People apart from others are at least the first part of a mask; with the second of their width and
# height as room they are looked at alone where that is less than the third of what was looked at,
# so many of them, the largest. Chosen on the dev and held-out pictures.
APART_LEAST, APART_ROOM, APART_MOST, APART_COUNT = 0.002, 0.1, 0.5, 8


def people_in(coarse: Mask, seen: Box) -> Box | None:
    """Return the part of what was seen where people are; None where nobody is.

    coarse: float32[n, m], 0..1, what the network found in the part `seen` of the picture.
    """
    left, top, right, bottom = seen
    box = box_of_people(coarse, right - left, bottom - top)
    if box is None:
        return None
    return _in_picture(box, seen)


def closer(coarse: Mask, seen: Box) -> Box | None:
    """Return what `people_in` does; None if that is nearly all of what was seen."""
    box = people_in(coarse, seen)
    return None if box is None or area(box) > CLOSER * area(seen) else box


def area(box: Box) -> int:
    """Return how many pixels a box has."""
    return (box[2] - box[0]) * (box[3] - box[1])


def parts_of(box: Box, count: int, share: float, step: int = 1) -> list[Box]:
    """Return parts of a box that overlap and cover it, row by row; they are a pixel at least.

    count: how many a side, two or more. share: how much of the box's width and height each has.
    step: of how many pixels their sizes are multiples, and their distances from the box's left and
    upper edges, unless they end where it does.
    """
    spans: list[list[tuple[int, int]]] = []
    for low, high in (box[::2], box[1::2]):
        room = high - low
        length = min(math.ceil(math.ceil(share * room) / step) * step, room)
        starts = [(room - length) * i // (count - 1) // step * step for i in range(count - 1)]
        spans.append([(low + start, low + start + length) for start in (*starts, room - length)])
    return [(left, top, right, bottom) for top, bottom in spans[1] for left, right in spans[0]]


def part_of(coarse: Mask, box: Box, seen: Box) -> Mask:
    """Return a part of what was found, as a mask of the same size.

    coarse: float32[n, n], 0..1, of the part `seen` of a picture; box: the wanted part of that.
    """
    import cv2

    side = coarse.shape[0]
    rows: list[list[float]] = []
    for axis in (0, 1):
        start, full = box[axis] - seen[axis], seen[axis + 2] - seen[axis]
        share = (box[axis + 2] - box[axis]) / full
        # Middles of pixels lie at a half.
        shift = start / full * side + (share - 1) / 2
        rows.append([share, 0.0, shift] if axis == 0 else [0.0, share, shift])
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    drawn = cv2.warpAffine(
        coarse, np.array(rows), (side, side), flags=how, borderMode=cv2.BORDER_REPLICATE
    )
    return cast(Mask, drawn)


def put_together(found: Sequence[Mask], parts: Sequence[Box], box: Box) -> Mask:
    """Return what was found in parts of a box as one mask of it, the mean where they overlap.

    found: float32[n, n], 0..1, of each. The parts cover all of the box.
    """
    import cv2

    side = found[0].shape[0]
    total, count = np.zeros((2, side, side), np.float32)
    for mask, part in zip(found, parts, strict=True):
        rows, columns = _place(part, box, side)
        size = (columns.stop - columns.start, rows.stop - rows.start)
        total[rows, columns] += cv2.resize(mask, size, interpolation=cv2.INTER_AREA)
        count[rows, columns] += 1
    # Their sums may be a little above one.
    return cast(Mask, np.minimum(total / count, np.float32(1)))


def apart(coarse: Mask, seen: Box) -> list[Box]:
    """Return parts of what was seen, each with people apart from others, the largest first.

    They do not overlap. coarse: float32[n, m], 0..1, what was found in the part `seen`.
    """
    import cv2

    count, labels, stats, _ = cv2.connectedComponentsWithStats((coarse > INSIDE).astype(np.uint8))
    left, top, right, bottom = seen
    width, height = right - left, bottom - top
    boxes: list[Box] = []
    for i in range(1, count):
        if stats[i, cv2.CC_STAT_AREA] < APART_LEAST * coarse.size:
            continue
        alone = coarse * (np.asarray(labels, np.int32) == i)
        box = box_round(alone, (0, 0, width, height), width, height, APART_ROOM)
        if box is not None:
            boxes.append(_in_picture(box, seen))
    found = sorted(_disjoint(boxes), key=area, reverse=True)[:APART_COUNT]
    return [box for box in found if area(box) < APART_MOST * area(seen)]


def mixed_in(coarse: Mask, said: Mask, part: Box, seen: Box) -> Mask:
    """Return a mask of what was seen, its mean with what a look at a part of that says there.

    coarse, said: float32[n, n], 0..1, of `seen` and of `part`.
    """
    import cv2

    rows, columns = _place(part, seen, coarse.shape[0])
    size = (columns.stop - columns.start, rows.stop - rows.start)
    mixed = coarse.copy()
    mixed[rows, columns] += cv2.resize(said, size, interpolation=cv2.INTER_AREA)
    mixed[rows, columns] /= 2
    return mixed


def _in_picture(box: Box, seen: Box) -> Box:
    """Return a box of the part `seen` of a picture in the picture."""
    left, top = seen[:2]
    return left + box[0], top + box[1], left + box[2], top + box[3]


def _place(part: Box, box: Box, side: int) -> tuple[slice, slice]:
    """Return the rows and columns of a part of a box in the box's mask of so many a side."""
    left, top, right, bottom = box
    rows = span(part[1] - top, part[3] - top, side / (bottom - top), side)
    return rows, span(part[0] - left, part[2] - left, side / (right - left), side)


def uncut(people: Mask, part: Box, width: int, height: int) -> Mask:
    """Return the mask of a part of a picture without who reaches out of the part.

    people: float32[n, m], 0..1. A sleeve or a leg of a table that is cut off looks like somebody;
    people are seen whole in another part. width, height: of the picture.
    """
    import cv2

    count, labels, stats, _ = cv2.connectedComponentsWithStats((people > INSIDE).astype(np.uint8))
    left, top, right, bottom = part
    rows, columns = people.shape
    is_cut = np.zeros(count, np.bool_)
    for i, (x, y, wide, high, _) in enumerate(np.asarray(stats).tolist()):
        beside = (x == 0 and left > 0) or (x + wide == columns and right < width)
        is_cut[i] = beside or (y == 0 and top > 0) or (y + high == rows and bottom < height)
    # What is around people has no label of theirs.
    is_cut[0] = False
    return people * ~is_cut[np.asarray(labels, np.int32)]


def groups(boxes: Sequence[Box]) -> list[Box]:
    """Return boxes round those that overlap, none of which overlap; of too many, one round all."""
    found = _disjoint(boxes)
    return found if len(found) <= MOST_GROUPS else [functools.reduce(_round_both, found)]


def _disjoint(boxes: Sequence[Box]) -> list[Box]:
    """Return boxes round those that overlap, none of which overlap."""
    found: list[Box] = []
    for each in boxes:
        box = each
        while touching := [other for other in found if overlap(box, other)]:
            for other in touching:
                found.remove(other)
                box = _round_both(box, other)
        found.append(box)
    return found


def overlap(one: Box, other: Box) -> bool:
    """Return whether two boxes share a pixel."""
    return all(one[i] < other[i + 2] and other[i] < one[i + 2] for i in (0, 1))


def within(one: Box, other: Box) -> bool:
    """Return whether all of a box lies in another one."""
    return all(other[i] <= one[i] and one[i + 2] <= other[i + 2] for i in (0, 1))


def joined(one: Box | None, other: Box | None) -> Box | None:
    """Return the box round both; None where there is neither."""
    if one is None or other is None:
        return one or other
    return _round_both(one, other)


def _round_both(one: Box, other: Box) -> Box:
    return (
        min(one[0], other[0]),
        min(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def are_small(coarse: Mask) -> bool:
    """Return whether all people are small in a mask, float32[n, m], 0..1, or it has none."""
    sizes = areas_of((coarse > INSIDE).astype(np.uint8))
    return int(sizes.max(initial=0)) < SMALL * coarse.size
