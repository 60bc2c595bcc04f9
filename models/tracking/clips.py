"""Clips made from photos, in which it is known where everything is.

A camera moves over a group photo, steadily or shaken, or one face passes before another. What is
where in a frame follows from the boxes in the photo and from the motion, which is made here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats, areas, clipped
from palmkit.kits.image import Image

Motion: TypeAlias = NDArray[np.float64]

# The longer side of a group photo, and of the part of it that the camera shows.
PHOTO, WINDOW = 1280, 768
# No point of a frame of a pan moves further than this to the next frame, in pixels.
GENTLE = 5.0
# So far, in pixels, a frame of a shaken clip is from where the camera was held.
SHAKE = (5.0, 20.0)
# By how much the camera zooms to either side, and how many frames it takes there and back.
ZOOM = 1.15
PERIODS = (40, 240)
# What lies in the frame with this part of it or more, and is covered by no more than the rest, is
# visible.
SHOWN = 0.7

# Of crossings: the size of frames, the side of the square round a face, and where faces start, end
# and stand.
CROSSING_HEIGHT, CROSSING_WIDTH, SIDE, TOP = 360, 640, 170, 80
FIRST, MIDDLE, LAST = 10.0, 235.0, 460.0
# Pixels a frame of the face in front and of the one behind.
SPEEDS = ((1.5, 1.5), (2.0, 1.0), (0.0, 3.0), (3.0, 3.0), (0.0, 6.0), (6.0, 6.0))
# The oval of a square that is cut out, in half sides; and the square's side in those of the box.
OVAL = (0.84, 0.92)
MARGIN = 1.35


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo, uint8[h, w, 3] RGB, and the boxes of what is in it: corners, float32[n, 4]."""

    picture: Image
    boxes: Floats


@dataclass(frozen=True, eq=False)
class Frame:
    """A frame of a clip.

    picture: uint8[h, w, 3], RGB. boxes: corners of each thing of the clip, in the same rows in all
    its frames, float32[n, 4]; some lie outside. visible: bool[n], which should be found.
    """

    picture: Image
    boxes: Floats
    visible: NDArray[np.bool_]


def enlarged(photo: Photo, longer: int = PHOTO) -> Photo:
    """Return the photo, its longer side that many pixels."""
    import cv2

    height, width = photo.picture.shape[:2]
    scale = longer / max(height, width)
    sides = (round(width * scale), round(height * scale))
    method = cv2.INTER_CUBIC if scale > 1 else cv2.INTER_AREA
    picture = cv2.resize(photo.picture, sides, interpolation=method)
    factors = np.tile(np.array(sides) / (width, height), 2)
    return Photo(np.asarray(picture, np.uint8), np.asarray(photo.boxes * factors, np.float32))


def tiled(photos: Sequence[Photo], columns: int, side: int) -> Photo:
    """Return the photos as one, in rows of so many squares of `side` pixels, on grey."""
    sheet = np.full((math.ceil(len(photos) / columns) * side, columns * side, 3), 128, np.uint8)
    boxes = [np.zeros((0, 4), np.float32)]
    for index, photo in enumerate(photos):
        small = enlarged(photo, side)
        height, width = small.picture.shape[:2]
        left = index % columns * side + (side - width) // 2
        top = index // columns * side + (side - height) // 2
        sheet[top : top + height, left : left + width] = small.picture
        boxes.append(small.boxes + np.array([left, top, left, top], np.float32))
    return Photo(sheet, np.concatenate(boxes))


def pan(height: int, width: int, frames: int, seed: int) -> Motion:
    """Return where a camera looks that gently goes over a photo: left, top, side, float64[n, 3].

    side: of the part that it shows over that of its frame, 1 and less. No point of a frame moves
    by more than GENTLE pixels to the next one.
    """
    random = np.random.default_rng(seed)
    shown_width, shown_height = window(height, width)
    room = np.array([width - shown_width, height - shown_height]) / 2
    phases, periods = random.uniform(0, 2 * math.pi, 3), random.uniform(*PERIODS, 3)
    waves = np.sin(2 * math.pi * np.arange(frames)[:, None] / periods + phases)
    reach = 1.0
    while True:
        side = ZOOM ** (reach * (waves[:, 2] - 1))
        shown = np.stack([side * shown_width, side * shown_height], axis=1)
        centres = np.array([width, height]) / 2 + reach * room * waves[:, :2]
        motion = np.column_stack([centres - shown / 2, side])
        if fastest(motion, shown_height, shown_width) <= GENTLE:
            return motion
        reach *= 0.95


def shaken(motion: Motion, seed: int) -> Motion:
    """Return the motion with each frame off by SHAKE pixels, in any direction."""
    random = np.random.default_rng(seed)
    angles = random.uniform(0, 2 * math.pi, len(motion))
    lengths = random.uniform(*SHAKE, len(motion)) * motion[:, 2]
    off = np.stack([np.cos(angles), np.sin(angles), np.zeros(len(motion))], axis=1)
    return np.asarray(motion + lengths[:, None] * off, np.float64)


def window(height: int, width: int) -> tuple[int, int]:
    """Return width and height of the frames over a photo of this size."""
    scale = WINDOW / PHOTO
    return round(width * scale), round(height * scale)


def fastest(motion: Motion, height: int, width: int) -> float:
    """Return by how many pixels a point moves at most from a frame to the next one."""
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]], np.float64)
    seen = motion[:-1, None, :2] + corners * motion[:-1, None, 2:]
    there = (seen - motion[1:, None, :2]) / motion[1:, None, 2:]
    return float(np.linalg.norm(there - corners, axis=2).max(initial=0))


def part(
    photo: Photo, place: tuple[float, float], scale: float, size: tuple[int, int], border: int
) -> Photo:
    """Return what lies in a photo from `place`, left and top, on, `scale` pixels of it a pixel.

    size: width and height. border: of cv2, for what lies outside of the photo.
    """
    import cv2

    matrix = np.array([[scale, 0, place[0]], [0, scale, place[1]]], np.float64)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    picture = cv2.warpAffine(photo.picture, matrix, size, flags=flags, borderMode=border)
    boxes = (photo.boxes - np.tile(place, 2)) / scale
    return Photo(np.asarray(picture, np.uint8), np.asarray(boxes, np.float32))


def filmed(photo: Photo, motion: Motion) -> Iterator[Frame]:
    """Yield the frames of a camera that moves over a photo, see `pan`."""
    import cv2

    width, height = window(*photo.picture.shape[:2])
    for left, top, side in motion.tolist():
        seen = part(photo, (left, top), side, (width, height), cv2.BORDER_REFLECT)
        inside = areas(clipped(seen.boxes, width, height)) >= SHOWN * areas(seen.boxes)
        yield Frame(seen.picture, seen.boxes, inside)


def cut_out(photo: Photo) -> Photo:
    """Return the square round the first box of a photo, with SIDE pixels a side."""
    import cv2

    x1, y1, x2, y2 = (float(value) for value in photo.boxes[0])
    side = max(x2 - x1, y2 - y1) * MARGIN
    left, top = (x1 + x2 - side) / 2, (y1 + y2 - side) / 2
    first = Photo(photo.picture, photo.boxes[:1])
    return part(first, (left, top), side / SIDE, (SIDE, SIDE), cv2.BORDER_REPLICATE)


def crossing(behind: Photo, front: Photo, speeds: tuple[float, float]) -> Iterator[Frame]:
    """Yield the frames until one of two faces has crossed the picture, before the other one.

    behind, front: see cut_out. speeds: pixels a frame of the one in front, to the right, and of
    the one behind, to the left; 0: it stands in the middle.
    """
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    oval: NDArray[np.bool_] = (x / OVAL[0]) ** 2 + (y / OVAL[1]) ** 2 < 1
    for index in range(int((LAST - FIRST) / max(speeds))):
        picture = np.full((CROSSING_HEIGHT, CROSSING_WIDTH, 3), 90, np.uint8)
        right = FIRST + speeds[0] * index if speeds[0] else MIDDLE
        left = LAST - speeds[1] * index if speeds[1] else MIDDLE
        places = [round(left), round(right)]
        boxes = [
            face.boxes[0] + np.array([place, TOP, place, TOP], np.float32)
            for face, place in zip((behind, front), places, strict=True)
        ]
        for face, place in zip((behind, front), places, strict=True):
            picture[TOP : TOP + SIDE, place : place + SIDE][oval] = face.picture[oval]
        # The ovals as they lie over each other, each as wide as the other.
        covered = 1 - abs(right - left) / (OVAL[0] * SIDE)
        visible = np.array([covered <= 1 - SHOWN, True])
        yield Frame(picture, np.stack(boxes), visible)
