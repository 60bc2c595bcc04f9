"""Faces made unrecognisable: blurred or pixelated with the hair round them, for privacy.

    faces = kits.detect_faces("group.jpg", min_score=0.3)
    kits.write_image("blurred.jpg", kits.blur_faces("group.jpg", faces))

A face that is not found is not blurred: look at what you share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError
from palmkit.engine.forks import finished
from palmkit.engine.ir import Type
from palmkit.kits.image import Image, clip_part, read_image, resize
from palmkit.kits.tracks import Clock

if TYPE_CHECKING:
    from palmkit.kits.image import Source
    from palmkit.kits.results import Faces

# The default of min_score where faces are looked for to be blurred: one too many does less harm
# than one too few.
MIN_SCORE = 0.3
# The blur's standard deviation, in sizes of a face. Of what repeats in half a size, such as the
# eyes, 1 % is left.
SIGMA = 0.25
LEAST_SIGMA = 1.5
# It is computed where this is its standard deviation, in pixels: less lets through some of what
# repeats in a pixel there.
FINE_SIGMA = 4.0
# Of the blurred picture colours are kept that are one standard deviation apart, as multiples of
# this; what is between them follows from them. A finer blur can be undone to some degree.
STEP = 4.0
# Cells of a mosaic in a face's size. They are of the blurred picture: cells of a moving face's own
# pixels could be put together to a finer picture.
CELLS = 5
# What is covered, in widths and heights of a face: to the sides, up over the hair, down.
SIDE, UP, DOWN = 0.72, 0.95, 0.68
# Rows put together at a time.
STRIPE = 128
# How far the edge fades into the picture, as a part of the shape.
FADE = 0.22
# Heads are this much wider than the boxes of profiles.
LEAST_WIDTH = 0.8
# A face of a video of this score or more is blurred where it was for so long, if it is not found or
# scores less; that place grows by so much of itself in a second.
HELD_SCORE, HELD_S, GROWTH = 0.5, 0.5, 0.3


@finished
def blur_faces(image: Source, faces: Faces | None = None, *, pixelate: bool = False) -> Image:
    """Return the picture with its faces unrecognisable: uint8[h, w, 3].

    image: as read_image takes it. faces: of this picture; None: what detect_faces finds with a
    min_score of 0.3. pixelate: into a mosaic; else blurred.
    Each face is blurred by a quarter of its size, with its hair, and fades into what is round it.
    Raises ImageError if `image` is not a picture, or `faces` are not of a picture of this size.
    """
    picture = read_image(image)
    if faces is None:
        from palmkit.kits.face.kit import detect_faces

        faces = detect_faces(picture, min_score=MIN_SCORE)
    return _blurred(picture, faces, heads_of(faces), pixelate)


class FaceBlur:
    """Makes the faces of a video unrecognisable, also where one is not found for a moment.

    blur = FaceBlur()
    with kits.FaceDetector("video", min_score=0.3, detect_every=1) as detector:
        faces = detector.detect(frame, timestamp_ms)  # of each frame
        show(blur(frame, faces, timestamp_ms))
    """

    def __init__(self, *, pixelate: bool = False) -> None:
        """Begin a video. pixelate: faces become mosaics; else they are blurred."""
        self._pixelate = pixelate
        self._clock = Clock()
        # Of each id its last certain place, and when it was there.
        self._seen: dict[int, tuple[Head, float]] = {}

    @finished
    def __call__(self, frame: Image, faces: Faces, timestamp_ms: float | None = None) -> Image:
        """Return the next frame with its faces unrecognisable: uint8[h, w, 3].

        frame: uint8[h, w, 3], RGB. faces: of this frame, with ids, of a kit in video mode.
        timestamp_ms: of the frame; None: 1/30 s after the last one.
        A face that was certain within the last half second is blurred where it was as well.
        Raises ImageError if `faces` are not of a picture of this size.
        """
        now_s = self._clock.tick(timestamp_ms)
        heads = heads_of(faces)
        ids: list[int] = [] if faces.ids is None else faces.ids.tolist()
        for id, head, score in zip(ids, heads, faces.scores, strict=False):
            if score >= HELD_SCORE:
                self._seen[id] = head, now_s
        self._seen = {id: seen for id, seen in self._seen.items() if now_s - seen[1] <= HELD_S}
        held = [
            head.grown(1 + GROWTH * (now_s - then_s))
            for head, then_s in self._seen.values()
            if then_s < now_s
        ]
        return _blurred(frame, faces, heads + held, self._pixelate)


@dataclass(frozen=True)
class Head:
    """The place of a head in a picture, in pixels.

    centre: float64[2] of x, y. across: float64[2], the direction to the right of an upright head.
    half: float64[2], from the centre to the side and to the top. size: of the face.
    """

    centre: NDArray[np.float64] = field(repr=False)
    across: NDArray[np.float64]
    half: NDArray[np.float64]
    size: float

    def grown(self, times: float) -> Head:
        """Return the place that is so many times as large."""
        return Head(self.centre, self.across, self.half * times, self.size * times)

    def box(self) -> tuple[float, float, float, float]:
        """Return x, y, w, h round all that is covered."""
        cos, sin = np.abs(self.across)
        reach = (1 + FADE) * np.array([[cos, sin], [sin, cos]]) @ self.half + 1
        left, top = (self.centre - reach).tolist()
        width, height = (2 * reach).tolist()
        return left, top, width, height

    def cover(self, left: int, top: int, right: int, bottom: int) -> NDArray[np.float32]:
        """Return how much of each pixel is covered: float32[bottom - top, right - left], 0..1."""
        x = (np.arange(left, right) + 0.5 - self.centre[0]).astype(np.float32)
        y = (np.arange(top, bottom)[:, None] + 0.5 - self.centre[1]).astype(np.float32)
        cos, sin = self.across.astype(np.float32)
        aside = np.abs(x * cos + y * sin) / float(self.half[0])
        along = np.abs(y * cos - x * sin) / float(self.half[1])
        # Squares would make an ellipse, higher powers more of a rectangle.
        radius = np.cbrt(aside * aside * aside + along * along * along)
        share = np.clip((1 + FADE - radius) / FADE, 0, 1)
        return np.asarray(share * share * (3 - 2 * share), np.float32)


def heads_of(faces: Faces) -> list[Head]:
    """Return the places of the faces' heads: hair, ears and chin."""
    return [
        _head(box.astype(np.float64), points.astype(np.float64))
        for box, points in zip(faces.boxes, faces.keypoints, strict=True)
        if box[2] > 0 and box[3] > 0
    ]


def _head(box: NDArray[np.float64], points: NDArray[np.float64]) -> Head:
    """Return the place of a head: of its face's box, and the five key points."""
    up = points[:2].mean(axis=0) - points[3:].mean(axis=0)
    length = math.hypot(*up.tolist())
    # Points that say nothing of a direction, such as those of tiny faces.
    is_told = length > 0.1 * float(box[2:].min()) and math.isfinite(length)
    up = up / length if is_told else np.array([0.0, -1.0])
    across = np.array([-up[1], up[0]])
    cos, sin = np.abs(across)
    # The box of a head that leans is round it as it lies in the picture.
    width, height = np.array([[cos, sin], [sin, cos]]) @ box[2:]
    width = max(width, LEAST_WIDTH * height)
    centre = box[:2] + box[2:] / 2 + up * (UP - DOWN) / 2 * height
    half = np.array([SIDE * width, (UP + DOWN) / 2 * height])
    return Head(centre, across, half, max(float(box[2:].max()) * LEAST_WIDTH, float(box[2:].min())))


def _blurred(picture: Image, faces: Faces, heads: list[Head], pixelate: bool) -> Image:
    if picture.dtype != np.uint8 or picture.shape != (faces.height, faces.width, 3):
        expected = Type("uint8", (faces.height, faces.width, 3))
        raise ImageError(f"blur faces: expected {expected}, got {Type.of(picture)}")
    canvas = picture.copy()
    # The largest last: what it shares with others is then blurred by it.
    for head in sorted(heads, key=lambda each: each.size):
        try:
            left, top, right, bottom = clip_part(canvas, head.box())
        except ImageError:
            # It has left the picture.
            continue
        rows = _hidden(canvas, head.size, (left, top, right, bottom), pixelate)
        for start in range(top, bottom, STRIPE):
            end = min(start + STRIPE, bottom)
            share = head.cover(left, start, right, end)
            if pixelate:
                # Half a cell would show half of what is in it.
                share = (share > 0).astype(np.float32)
            part = canvas[start:end, left:right]
            mixed = part + share[..., None] * (rows(start, end) - part)
            part[...] = np.rint(np.clip(mixed, 0, 255, out=mixed), out=mixed)
    return canvas


def _hidden(
    picture: Image, size: float, part: tuple[int, int, int, int], pixelate: bool
) -> Callable[[int, int], NDArray[np.float32]]:
    """Hide what is smaller than half a face in a part of a picture: left, top, right, bottom.

    Returns a function that gives its rows from one to another one of the picture's: float32[n, w,
    3].
    """
    import cv2

    left, top, right, bottom = part
    sigma = max(SIGMA * size, LEAST_SIGMA)
    # With what is round it, so that the part's own edge is none.
    reach = math.ceil(2 * sigma)
    low_x, low_y = max(left - reach, 0), max(top - reach, 0)
    around = picture[low_y : bottom + reach, low_x : right + reach]
    height, width = around.shape[:2]
    scale = min(FINE_SIGMA / sigma, 1)
    fine = resize(around, max(round(height * scale), 1), max(round(width * scale), 1))
    blurred = cv2.GaussianBlur(
        fine.astype(np.float32),
        (0, 0),
        sigmaX=sigma * fine.shape[1] / width,
        sigmaY=sigma * fine.shape[0] / height,
        borderType=cv2.BORDER_REPLICATE,
    )
    blurred = cast("NDArray[np.float32]", blurred)
    kept = _resized(blurred, round(height / sigma), round(width / sigma), cv2.INTER_AREA)
    np.multiply(np.rint(kept / STEP), STEP, out=kept)
    method = cv2.INTER_CUBIC
    if pixelate:
        side = max(size / CELLS, 2.0)
        kept = _resized(kept, round(height / side), round(width / side), cv2.INTER_LINEAR)
        method = cv2.INTER_NEAREST
    # What enlarging does to each row and column, without the whole picture that it makes.
    down, across = (
        cv2.resize(np.eye(count, dtype=np.float32), (count, length), interpolation=method)
        for count, length in zip(kept.shape[:2], (height, width), strict=True)
    )
    wide = np.einsum("rck,wc->rwk", kept, across[left - low_x : right - low_x])

    def rows(start: int, end: int) -> NDArray[np.float32]:
        return np.asarray(np.tensordot(down[start - low_y : end - low_y], wide, 1), np.float32)

    return rows


def _resized(
    picture: NDArray[np.float32], height: int, width: int, method: int
) -> NDArray[np.float32]:
    import cv2

    made = cv2.resize(picture, (max(width, 1), max(height, 1)), interpolation=method)
    return cast("NDArray[np.float32]", made)
