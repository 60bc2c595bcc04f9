"""The parts of a picture that the networks see."""

from __future__ import annotations

import math
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image, Part, resize
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

Box: TypeAlias = tuple[int, int, int, int]


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
        image = self._levels[0]
        level = 0
        while min(box[2] - box[0], box[3] - box[1]) >= LEAST * side and not any(
            length % 2 for length in (*box, *image.shape[:2])
        ):
            level += 1
            image = self._at(level)
            box = _halved(box)
        left, top, right, bottom = box
        return shrink(image[top:bottom, left:right], side)

    def glance(self, side: int) -> Image:
        """Return all of it as a square, quickly: at most two pixels a side are interpolated."""
        import cv2

        image = self._levels[0]
        level = 0
        while max(image.shape[:2]) > 2 * side:
            if any(length % 2 for length in image.shape[:2]):
                return resize(image, side, side)
            level += 1
            image = self._at(level)
        return cast(Image, cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR))

    def _at(self, level: int) -> Image:
        if level == len(self._levels):
            self._levels.append(half(self._levels[-1]))
        return self._levels[level]


def _halved(box: Box) -> Box:
    left, top, right, bottom = box
    return left // 2, top // 2, right // 2, bottom // 2


def shrink(image: Image, side: int) -> Image:
    """Return the whole picture as a square, halved exactly, which is fast, down to about its size.

    Beyond that the network sees a picture that is blurred or rough by a third at most.
    """
    import cv2

    least = LEAST * side
    while True:
        height, width = image.shape[:2]
        down, across = (1 + (length >= least and not length % 2) for length in (height, width))
        if down == across == 1:
            break
        half = (width // across, height // down)
        image = cast(Image, cv2.resize(image, half, interpolation=cv2.INTER_AREA))
    if max(image.shape[:2]) >= least:
        return resize(image, side, side)
    return cast(Image, cv2.resize(image, (side, side), interpolation=cv2.INTER_LINEAR))


def box_of_people(coarse: Mask, width: int, height: int) -> tuple[int, int, int, int] | None:
    """Return left, top, right, bottom of the people with a margin, in the picture's pixels."""
    import cv2

    x, y, wide, high = cv2.boundingRect((coarse > INSIDE).view(np.uint8))
    if not wide:
        return None
    left, right = _stretch(x, wide, coarse.shape[1], width)
    top, bottom = _stretch(y, high, coarse.shape[0], height)
    if (right - left) * (bottom - top) >= WHOLE * width * height:
        return 0, 0, width, height
    return left, top, right, bottom


def _stretch(start: int, length: int, places: int, pixels: int) -> tuple[int, int]:
    """Return start and end in a picture, with a margin, so that the part is halved exactly."""
    room = ROOM * length
    step = STEP * places / pixels
    low = math.floor((start - room) / step) * STEP
    high = math.ceil((start + length + room) / step) * STEP
    return max(low, 0), min(high, pixels)


def square_round(box: NDArray[np.float32], width: int, height: int) -> Part:
    """Return the square x, y, side, side that the hair network sees of a face.

    box: float32[4] of x, y, w, h. The square is no larger than the picture's longer side, and is
    moved into the picture as far as possible.
    """
    x, y, wide, high = (float(value) for value in box)
    side = min(HAIR_REACH * max(wide, high), max(width, height))
    left = x + (wide - side) / 2
    top = y + (high - side) / 2 + HAIR_DROP * max(wide, high)
    left = min(max(left, min(0.0, width - side)), max(0.0, width - side))
    top = min(max(top, min(0.0, height - side)), max(0.0, height - side))
    return left, top, side, side


def span(low: float, high: float, scale: float, side: int) -> slice:
    """Return whole pixels of the input, at least one."""
    start = min(max(round(low * scale), 0), side - 1)
    return slice(start, min(max(round(high * scale), start + 1), side))
