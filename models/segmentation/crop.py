"""Parts of pictures: the square round a face that the hair network sees, a box with room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
Flags = npt.NDArray[np.bool_]
Picture = npt.NDArray[np.uint8]
# The square's side and how far it is moved down, in the longer side of the face's box: on street
# photos this holds 99 % of the hair.
REACH, DROP = 3.5, 0.1


class Square(NamedTuple):
    """A square in a picture's pixels; it may go past the picture's edges."""

    left: float
    top: float
    side: float


def crop_round(face: Array, width: int, height: int, reach: float = REACH) -> Square:
    """Return the square round a face's box, float32[4] of x, y, w, h, in a picture of this size.

    It is no larger than the picture's longer side, and moved inside of the picture as far as
    possible.
    """
    long = float(max(face[2], face[3]))
    side = min(reach * long, max(width, height))
    left = float(face[0] + face[2] / 2) - side / 2
    top = float(face[1] + face[3] / 2) + DROP * long - side / 2
    return Square(
        min(max(left, min(0.0, width - side)), max(0.0, width - side)),
        min(max(top, min(0.0, height - side)), max(0.0, height - side)),
        side,
    )


def edges(
    box: Sequence[float], room: float, shape: Sequence[int], pixels: int = 1
) -> tuple[int, int, int, int]:
    """Return left, top, right, bottom of a box with room on each side, within the picture.

    box: x, y, w, h. room: in its width and height. shape: of the picture, height and width.
    pixels: of room beside that. At least the pixel nearest to the box's middle is within.
    """
    low, high = list[int](), list[int]()
    for start, length, full in zip(box[:2], box[2:], shape[1::-1], strict=True):
        middle = min(max(int(start + length / 2), 0), full - 1)
        low.append(min(max(int(start - room * length - pixels), 0), middle))
        end = int(np.ceil(start + (1 + room) * length + pixels))
        high.append(max(min(end, full), middle + 1))
    return low[0], low[1], high[0], high[1]


def fitted(picture: Picture, square: Square, size: int, alpha: Array | None = None) -> Picture:
    """Return the square of the picture, black outside: uint8[size, size, 3].

    alpha: opacity of a cut-out, float32[h, w]; grey shows through.
    """
    if alpha is not None:
        share = alpha[..., None]
        picture = np.asarray(picture * share + 128 * (1 - share), np.float32).astype(np.uint8)
    scale = size / square.side
    matrix = np.asarray(
        [
            [scale, 0, -square.left * scale + scale / 2 - 0.5],
            [0, scale, -square.top * scale + scale / 2 - 0.5],
        ]
    )
    if scale < 0.7:
        # A blur before sampling avoids aliasing.
        blur = 0.5 * (1 / scale - 1)
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), max(blur, 0.3)), np.uint8)
    return np.asarray(
        cv2.warpAffine(picture, matrix, (size, size), flags=cv2.INTER_LINEAR), np.uint8
    )


def put_back(mask: Array, square: Square, shape: tuple[int, ...]) -> Array:
    """Return a mask of the picture's shape, float32[h, w]: the square's mask, zero around it."""
    scale = square.side / mask.shape[0]
    matrix = np.asarray(
        [
            [scale, 0, square.left + scale / 2 - 0.5],
            [0, scale, square.top + scale / 2 - 0.5],
        ]
    )
    if scale < 0.7:
        blur = 0.5 * (1 / scale - 1)
        mask = np.asarray(cv2.GaussianBlur(mask, (0, 0), max(blur, 0.3)), np.float32)
    placed = cv2.warpAffine(mask, matrix, (shape[1], shape[0]), flags=cv2.INTER_LINEAR)
    return np.asarray(placed, np.float32)
