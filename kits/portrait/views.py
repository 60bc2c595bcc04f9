"""Which parts of a picture the networks see."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image, Part, resize
from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.result import INSIDE

# The square that the hair network sees round a face: its side, and how far its middle lies below
# the face's, in the longer side of the face's box.
HAIR_REACH = 3.5
HAIR_DROP = 0.1
# The second look's room on each side of the people, in their width and height; of how many pixels
# its edges are multiples; how much it counts, where the first counts the rest.
ROOM = 0.15
STEP = 8
SECOND_SHARE = 0.6
# Where they take this part of the picture or more it is looked at whole again: as good and quicker.
WHOLE = 0.95


def shrink(image: Image, side: int) -> Image:
    """The whole picture as a square: halved exactly, which is fast, down to about the right size.

    Beyond that the network sees a picture that is blurred or rough by a third at most.
    """
    import cv2

    least = 1.75 * side
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
    """Left, top, right, bottom of the people and some room, in pixels of the picture."""
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
    """From where to where in a picture, with room, so that the part is halved exactly."""
    room = ROOM * length
    step = STEP * places / pixels
    low = math.floor((start - room) / step) * STEP
    high = math.ceil((start + length + room) / step) * STEP
    return max(low, 0), min(high, pixels)


def part_of(coarse: Mask, box: tuple[int, int, int, int], width: int, height: int) -> Mask:
    """What a mask of the whole picture says of a part of it, in as many values."""
    import cv2

    rows, columns = coarse.shape
    left, top, right, bottom = box
    x, y = (right - left) / width, (bottom - top) / height
    shift_x = left * columns / width + 0.5 * x - 0.5
    shift_y = top * rows / height + 0.5 * y - 0.5
    matrix = np.array([[x, 0, shift_x], [0, y, shift_y]])
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    part = cv2.warpAffine(
        coarse, matrix, (columns, rows), flags=flags, borderMode=cv2.BORDER_REPLICATE
    )
    return cast(Mask, part)


def square_round(box: NDArray[np.float32], width: int, height: int) -> Part:
    """The square x, y, side, side that the hair network sees of a face.

    box: float32[4] of x, y, w, h. The square is no larger than the picture's longer side, and is
    moved into the picture as far as it goes.
    """
    x, y, wide, high = (float(value) for value in box)
    side = min(HAIR_REACH * max(wide, high), max(width, height))
    left = x + (wide - side) / 2
    top = y + (high - side) / 2 + HAIR_DROP * max(wide, high)
    left = min(max(left, min(0.0, width - side)), max(0.0, width - side))
    top = min(max(top, min(0.0, height - side)), max(0.0, height - side))
    return left, top, side, side


def span(low: float, high: float, scale: float, side: int) -> slice:
    """Whole pixels of the input, at least one."""
    start = min(max(round(low * scale), 0), side - 1)
    return slice(start, min(max(round(high * scale), start + 1), side))
