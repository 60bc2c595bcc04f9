"""The parts of a picture that the networks see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.frames import Box as Box
from palmkit.engine.frames import Resizing
from palmkit.kits.image import Image, Part, resize, resized, resizings
from palmkit.kits.portrait.refine import Mask, half
from palmkit.kits.results import INSIDE

# The square that the hair network sees round a face: its side, and how far its middle lies below
# the face's, in the longer side of the face's box.
HAIR_REACH = 3.5
HAIR_DROP = 0.1
# The room on each side of the people, in their width and height; of how many pixels the edges of
# the part looked at are multiples.
ROOM = 0.15
STEP = 8
# Where that part is this share of the picture or more it is the whole: as good, and quicker.
WHOLE = 0.95
# What is at least so many times as long as the square is halved first.
LEAST = 1.75

# Where the body of a face may be: above the face, below it and to each side, in its height and
# width.
BODY = (0.8, 9.0, 1.5)
# The least area of a person whose face is not known, in places of the glance, and in that of the
# largest of the people; the share of it that is enough of one who was known in the frame before;
# how many of them are looked at.
LEAST_PLACES, LEAST_SHARE, KEPT, MOST_HEADS = 16, 0.25, 0.5, 4
# The square round the head of such a person: its side, in the person's width and height; how much
# of it lies above the person. Who fills so much of a picture is seen with all of it.
HEAD_SIDE, HEAD_HEIGHT, HEAD_ROOM, NEAR = 1.15, 0.4, 0.12, 0.4
# Where all that was looked at for hair is a smaller part of the picture than the first, somebody
# very near may have been missed, whose hair is at least the second.
FAR, LARGE = 0.3, 0.1


class Halves:
    """A picture, its half, the half of that ..., each made on first use."""

    def __init__(self, image: Image) -> None:
        """Wrap a picture, uint8[h, w, 3]."""
        self._levels = [image]

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        height, width = self._levels[0].shape[:2]
        return width, height

    def part(self, box: Box, side: int) -> Image:
        """Return a part of the picture as a square; the same as `shrink` of it."""
        least = LEAST * side
        return shrink(self._halved(box, lambda wide, high: min(wide, high) >= least), side)

    def glance(self, side: int, box: Box | None = None) -> Image:
        """Return a part, or all, as a square, quickly: at most two pixels a side are interpolated.

        What can be is taken from halves of the whole picture.
        """
        import cv2

        whole = (0, 0, *self.size)
        image = self._halved(box or whole, lambda wide, high: max(wide, high) > 2 * side)
        while max(image.shape[:2]) > 2 * side:
            if any(length % 2 for length in image.shape[:2]):
                return resize(image, side, side)
            image = half(image)
        return cast(Image, cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR))

    def _halved(self, box: Box, is_large: Callable[[int, int], bool]) -> Image:
        """Return a part, halved with the whole picture while it is large and edges are even.

        is_large: says so of a width and a height.
        """
        image, level = self._levels[0], 0
        left, top, right, bottom = box
        while is_large(right - left, bottom - top) and not any(
            length % 2 for length in (left, top, right, bottom, *image.shape[:2])
        ):
            level += 1
            image = self._at(level)
            left, top, right, bottom = left // 2, top // 2, right // 2, bottom // 2
        return image[top:bottom, left:right]

    def _at(self, level: int) -> Image:
        if level == len(self._levels):
            self._levels.append(half(self._levels[-1]))
        return self._levels[level]


def shrink(image: Image, side: int) -> Image:
    """Return the whole picture as a square, halved exactly, which is fast, down to about its size.

    Beyond that the network sees a picture that is blurred or rough by a third at most.
    """
    return resized(image, shrinkings(image.shape[1], image.shape[0], side))


def shrinkings(width: int, height: int, side: int) -> list[Resizing]:
    """Return the steps of `shrink` for a picture of this size."""
    least = LEAST * side
    steps: list[Resizing] = []
    while True:
        down, across = (1 + (length >= least and not length % 2) for length in (height, width))
        if down == across == 1:
            break
        width, height = width // across, height // down
        steps.append(Resizing(width, height, "area"))
    if max(width, height) >= least:
        return steps + resizings((width, height), (side, side))
    return [*steps, Resizing(side, side, "linear")]


def box_of_people(coarse: Mask, width: int, height: int) -> tuple[int, int, int, int] | None:
    """Return left, top, right, bottom of the people with a margin, in the picture's pixels."""
    whole = (0, 0, width, height)
    box = box_round(coarse, whole, width, height)
    if box is None:
        return None
    left, top, right, bottom = box
    return whole if (right - left) * (bottom - top) >= WHOLE * width * height else box


def box_round(
    coarse: Mask, seen: Box, width: int, height: int, room: float = ROOM
) -> tuple[int, int, int, int] | None:
    """Return the part of a picture round the people in a part of it; None where nobody is.

    It is such that what it shows is halved exactly. coarse: float32[n, m], 0..1, of the part
    `seen`, which the room may reach out of. width, height: of the picture. room: round the people,
    in their width and height.
    """
    import cv2

    x, y, wide, high = cv2.boundingRect((coarse > INSIDE).view(np.uint8))
    if not wide:
        return None
    spans: list[int] = []
    for axis, (start, length, pixels) in enumerate(((x, wide, width), (y, high, height))):
        places, low = coarse.shape[1 - axis], seen[axis]
        full = seen[axis + 2] - low
        step = STEP * places / full
        first = start + low * places / full
        spans.append(max(math.floor((first - room * length) / step) * STEP, 0))
        spans.append(min(math.ceil((first + length + room * length) / step) * STEP, pixels))
    return spans[0], spans[2], spans[1], spans[3]


def doubt(coarse: Mask) -> float:
    """Return how far a mask is from 0 and 1, summed, for each place of the people in it.

    People in less than a three-hundredth of it count as so much.
    """
    unsure = float(np.minimum(coarse, 1 - coarse).sum())
    inside = float(np.count_nonzero(coarse > INSIDE))
    return unsure / max(inside, coarse.size / 300)


def square_round(box: NDArray[np.float32], width: int, height: int) -> Part:
    """Return the square x, y, side, side that the hair network sees of a face.

    box: float32[4] of x, y, w, h. The square is no larger than the picture's longer side, and is
    moved into the picture as far as possible.
    """
    x, y, wide, high = (float(value) for value in box)
    side = min(HAIR_REACH * max(wide, high), max(width, height))
    left = x + (wide - side) / 2
    top = y + (high - side) / 2 + HAIR_DROP * max(wide, high)
    return _moved_inside(left, side, width), _moved_inside(top, side, height), side, side


def far_only(views: Sequence[Part], picture: Part) -> bool:
    """Return whether each of the views is a small part of the picture."""
    return all(view[2] * view[3] < FAR * picture[2] * picture[3] for view in views)


class Head(NamedTuple):
    """Where to look for the hair of somebody whose face is not known.

    part: a square x, y, side, side round the head; of someone near the whole picture, which need
    not be square. is_sure: False of what is so small beside the others that it may be no person.
    """

    part: Part
    is_sure: bool


def heads_without_faces(
    people: Mask, faces: NDArray[np.float32], width: int, height: int
) -> list[Head]:
    """Return the heads of people whose faces are not known, the largest people first.

    people: float32[n, m], 0..1, of the picture stretched; faces: float32[f, 4] of x, y, w, h in the
    picture's pixels.
    """
    import cv2

    rows, columns = people.shape
    down, across = rows / height, columns / width
    inside = (people > INSIDE).astype(np.uint8)
    least = max(LEAST_PLACES, LEAST_SHARE * areas_of(inside).max(initial=0))
    above, below, beside = BODY
    for x, y, wide, high in faces.tolist():
        top, bottom = (y - above * high) * down, (y + below * high) * down
        left, right = (x - beside * wide) * across, (x + (1 + beside) * wide) * across
        ends = max(math.ceil(bottom), 0), max(math.ceil(right), 0)
        inside[max(int(top), 0) : ends[0], max(int(left), 0) : ends[1]] = 0
    # Narrow rests belong to people whose faces are known.
    inside = cv2.morphologyEx(inside, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)).astype(np.uint8)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(inside)
    found: list[Head] = []
    areas = np.asarray(stats)[:, cv2.CC_STAT_AREA]
    for part in sorted(range(1, len(areas)), key=lambda each: -areas[each])[:MOST_HEADS]:
        if areas[part] < KEPT * least:
            continue
        x, y, wide, high, _ = (int(value) for value in stats[part])
        top_rows = np.asarray(labels)[y : y + math.ceil(high / 4)] == part
        middle = float(np.flatnonzero(top_rows.any(axis=0)).mean()) + 0.5
        size = wide / across, high / down
        square = _round_head(middle / across, y / down, *size, width, height)
        found.append(Head(square, bool(areas[part] >= least)))
    return found


def areas_of(inside: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of places of each connected part of what is not 0."""
    import cv2

    stats = cv2.connectedComponentsWithStats(inside)[2]
    return np.asarray(stats[1:, cv2.CC_STAT_AREA], np.int32)


def _round_head(
    middle: float, above: float, wide: float, high: float, width: int, height: int
) -> Part:
    """Return what to look at for the head of a person of this width and height in a picture.

    middle: of the person's upper part, across; above: the person's upper end.
    """
    if wide * high > NEAR * width * height and high < 2 * wide:
        return 0.0, 0.0, float(width), float(height)
    side = min(HEAD_SIDE * max(wide, HEAD_HEIGHT * high), max(width, height))
    return (
        _moved_inside(middle - side / 2, side, width),
        _moved_inside(above - HEAD_ROOM * side, side, height),
        side,
        side,
    )


def _moved_inside(start: float, length: float, most: int) -> float:
    """Return the start nearest to this one of what lies in 0..most as far as it can."""
    return min(max(start, min(0.0, most - length)), max(0.0, most - length))


def span(low: float, high: float, scale: float, side: int) -> slice:
    """Return whole pixels of the input, at least one."""
    start = min(max(round(low * scale), 0), side - 1)
    return slice(start, min(max(round(high * scale), start + 1), side))
