"""How the camera of a video moves, as seen in its frames."""

from __future__ import annotations

import cmath
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Boxes, Floats
from palmkit.kits.crop import Crop
from palmkit.kits.image import Image

# The longer side, in pixels, of the grey picture in which motion is seen.
SIDE = 128
# At most one corner is followed in each square of so many of its pixels, the clearest, if it is as
# clear as this (the smaller eigenvalue of cv2.cornerMinEigenVal), and at most so many in all.
CELL, CLEAR, MOST = 16, 1e-4, 32
# A point is followed by so many pixels round it, on so many levels more, each half as large.
AROUND, LEVELS = 11, 3
# Points that move with the camera are less than this off, in pixels of the grey picture; so many
# of them there must be, with this share of all, and so widely spread, in parts of the sides.
NEAR, LEAST, LEAST_SHARE, SPREAD = 0.5, 8, 0.4, 0.15
# A frame is compared with the same one until the camera has moved by this part of the longer side.
FAR = 0.1
# More than this from one frame to the next is no zoom.
MAX_ZOOM = 1.25
# What moves by itself reaches beyond its box, by this part of its sides.
MARGIN = 0.5


@dataclass(frozen=True)
class Similarity:
    """A motion of the picture: the point x + yi comes to turn * (x + yi) + shift.

    The absolute value of `turn` is the zoom, its angle how far the camera was rolled.
    """

    turn: complex = 1 + 0j
    shift: complex = 0j

    def after(self, other: Similarity) -> Similarity:
        """Return the motion that is first `other`, then this one."""
        return Similarity(self.turn * other.turn, self.turn * other.shift + self.shift)

    @property
    def inverse(self) -> Similarity:
        """The motion back."""
        return Similarity(1 / self.turn, -self.shift / self.turn)

    def points(self, points: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return points[..., 2] moved, float64[..., 2]."""
        x, y, (a, b) = points[..., 0], points[..., 1], (self.turn.real, self.turn.imag)
        moved = (a * x - b * y + self.shift.real, b * x + a * y + self.shift.imag)
        return np.stack(moved, axis=-1).astype(np.float64)

    def points_in_space(self, points: NDArray[np.floating[Any]]) -> Floats:
        """Return points[..., 3] moved, float32[..., 3]; z is scaled as x and y are."""
        flat = self.points(points[..., :2])
        depth = points[..., 2:3] * abs(self.turn)
        return np.concatenate([flat, depth], axis=-1).astype(np.float32)

    def boxes(self, boxes: Boxes) -> NDArray[np.float64]:
        """Return boxes, corners[..., 4], moved, float64[..., 4]; they stay upright."""
        if self == _STILL:
            return np.asarray(boxes, np.float64)
        centres = self.points((boxes[..., :2] + boxes[..., 2:]) / 2)
        halves = (boxes[..., 2:] - boxes[..., :2]) * (abs(self.turn) / 2)
        return np.concatenate([centres - halves, centres + halves], axis=-1)

    def crop(self, crop: Crop) -> Crop:
        """Return a crop moved, turned and scaled."""
        if self == _STILL:
            return crop
        centre = self.turn * complex(crop.x, crop.y) + self.shift
        angle = crop.angle + cmath.phase(self.turn)
        return Crop(centre.real, centre.imag, crop.side * abs(self.turn), angle)


_STILL = Similarity()


class CameraMotion:
    """Tells from the frames of a video how the camera moved since the first of them.

    Corners of a small grey picture are followed by Lucas and Kanade's method in pyramids (Bouguet,
    Pyramidal Implementation of the Lucas Kanade Feature Tracker, 1999); the motion is the
    similarity that most of them agree on. Before a picture in which too few do, such as the first
    one after a cut, the camera is taken to have stood still.
    """

    def __init__(self) -> None:
        """Start before the first frame."""
        self._start = Similarity()
        self._since = Similarity()
        self._before: Image | None = None
        self._corners = np.zeros((0, 1, 2), np.float32)

    @property
    def view(self) -> Similarity:
        """The motion from the first frame to this one, in pixels."""
        return self._since.after(self._start)

    def pause(self) -> None:
        """Leave frames out: the camera's motion over them is not seen."""
        self._start, self._since, self._before = self.view, Similarity(), None

    def update(self, frame: Image, boxes: Boxes) -> None:
        """Take the next frame, uint8[h, w, 3]; boxes: corners[n, 4] of what moves by itself."""
        grey, scale = _grey(frame)
        motion = None
        if self._before is not None and self._before.shape == grey.shape:
            motion = self._motion(self._before, grey, scale)
        if motion is not None:
            self._since = motion
        height, width = frame.shape[:2]
        if motion is None or _reach(motion, width, height) > FAR * max(width, height):
            self.pause()
            self._before, self._corners = grey, _corners(grey, boxes / scale)

    def _motion(self, before: Image, grey: Image, scale: float) -> Similarity | None:
        """Return the motion between two grey pictures, in pixels of the frames; None: unclear."""
        import cv2

        if len(self._corners) < LEAST:
            return None
        expected = Similarity(self._since.turn, self._since.shift / scale).points(self._corners)
        moved, found, _ = cv2.calcOpticalFlowPyrLK(
            before,
            grey,
            self._corners,
            expected.astype(np.float32),
            winSize=(AROUND, AROUND),
            maxLevel=LEVELS,
            criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03),
            flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
        )
        seen = found[:, 0] > 0
        if np.count_nonzero(seen) < LEAST:
            return None
        source, target = self._corners[seen, 0], moved[seen, 0]
        fitted, agreeing = cv2.estimateAffinePartial2D(
            source, target, method=cv2.RANSAC, ransacReprojThreshold=NEAR
        )
        # None, where nothing fits, becomes NaN.
        matrix = np.array(fitted, np.float64)
        if not np.isfinite(matrix).all():
            return None
        agrees = agreeing[:, 0] > 0
        count = np.count_nonzero(agrees)
        if count < max(LEAST, LEAST_SHARE * len(source)):
            return None
        height, width = grey.shape
        if (source[agrees].std(axis=0) < SPREAD * np.array([width, height])).any():
            return None
        turn = complex(matrix[0, 0], matrix[1, 0])
        zoomed = abs(turn) / abs(self._since.turn)
        if not 1 / MAX_ZOOM < zoomed < MAX_ZOOM:
            return None
        return Similarity(turn, complex(matrix[0, 2], matrix[1, 2]) * scale)


def _grey(frame: Image) -> tuple[Image, float]:
    """Return a small grey picture, uint8[h, w], and how many pixels of the frame one of it is."""
    import cv2

    height, width = frame.shape[:2]
    scale = max(width, height) / SIDE
    sides = (max(round(width / scale), 1), max(round(height / scale), 1))
    # To skip pixels first is several times as fast as to average over all of them.
    twice = cv2.resize(frame, (2 * sides[0], 2 * sides[1]), interpolation=cv2.INTER_NEAREST)
    small = cv2.resize(twice, sides, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2GRAY), np.uint8), scale


def _corners(grey: Image, boxes: Boxes) -> NDArray[np.float32]:
    """Return where to follow the picture, float32[n, 1, 2]: outside of boxes, corners[n, 4]."""
    import cv2

    clear = np.asarray(cv2.cornerMinEigenVal(grey, 3))
    clear[: AROUND // 2], clear[-(AROUND // 2) :] = 0, 0
    clear[:, : AROUND // 2], clear[:, -(AROUND // 2) :] = 0, 0
    margins = (boxes[:, 2:] - boxes[:, :2]) * MARGIN
    low = np.maximum(np.floor(boxes[:, :2] - margins), 0).astype(np.int64)
    high = np.maximum(np.ceil(boxes[:, 2:] + margins), 0).astype(np.int64)
    for (left, top), (right, bottom) in zip(low.tolist(), high.tolist(), strict=True):
        clear[top:bottom, left:right] = 0
    rows, columns = (side // CELL for side in grey.shape)
    squares = clear[: rows * CELL, : columns * CELL].reshape(rows, CELL, columns, CELL)
    cells = squares.swapaxes(1, 2).reshape(rows * columns, CELL * CELL)
    best = cells.argmax(axis=1)
    clearest = cells[np.arange(len(cells)), best]
    kept = np.argsort(-clearest, kind="stable")[:MOST]
    kept = kept[clearest[kept] > CLEAR]
    best = best[kept]
    x = kept % max(columns, 1) * CELL + best % CELL
    y = kept // max(columns, 1) * CELL + best // CELL
    return np.stack([x, y], axis=1).astype(np.float32)[:, None]


def _reach(motion: Similarity, width: int, height: int) -> float:
    """Return by how many pixels a corner of the frame moves at most."""
    corners = (0j, complex(width), complex(0, height), complex(width, height))
    return max(abs(motion.turn * corner + motion.shift - corner) for corner in corners)
