"""How the camera of a video moves, as seen in its frames."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Boxes, Floats
from palmkit.kits.crop import Crop
from palmkit.kits.image import Image

# The longer side, in pixels, of the grey picture in which motion is seen; up to half more or less.
SIDE = 128
# At most one corner is followed in each square of so many of its pixels, the clearest, if it is as
# clear as this (the smaller eigenvalue of cv2.cornerMinEigenVal), and at most so many in all.
CELL, CLEAR, MOST = 16, 1e-4, 32
# A point is followed by so many pixels round it, on so many levels more, each half as large.
AROUND, LEVELS = 9, 3
# Points that move with the camera are less than this off, in pixels of the grey picture; so many
# of them there must be, with this share of all, and so widely spread, in parts of the sides.
NEAR, LEAST, LEAST_SHARE, SPREAD = 0.5, 8, 0.4, 0.15
# Where there is less to follow, as where faces fill the frame, so many frames pass before the next
# look for it.
BLIND_FRAMES = 8
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

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The motion as cv2.warpAffine takes it: float64[2, 3]."""
        a, b = self.turn.real, self.turn.imag
        return np.array([[a, -b, self.shift.real], [b, a, self.shift.imag]])

    def magnified(self, scale: float) -> Similarity:
        """Return it in pixels of a picture that has so many for each, as cv2.resize places them."""
        off = complex(1, 1) * (scale - 1) / 2
        return Similarity(self.turn, self.shift * scale + off * (1 - self.turn))

    def points(self, points: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return points[..., 2] moved, float64[..., 2]."""
        x, y, (a, b) = points[..., 0], points[..., 1], (self.turn.real, self.turn.imag)
        moved = (a * x - b * y + self.shift.real, b * x + a * y + self.shift.imag)
        return np.stack(moved, axis=-1).astype(np.float64)

    def points_in_space(self, points: NDArray[np.floating[Any]]) -> Floats:
        """Return points[..., 3] moved, float32[..., 3]; z is scaled as x and y are."""
        a, b = self.turn.real, self.turn.imag
        turn = np.array([[a, b, 0], [-b, a, 0], [0, 0, abs(self.turn)]], np.float32)
        shift = np.array([self.shift.real, self.shift.imag, 0], np.float32)
        return np.asarray(points @ turn + shift, np.float32)

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
        self._corners = np.zeros(0, np.complex64)
        self._blind_frames = 0

    @property
    def view(self) -> Similarity:
        """The motion from the first frame to this one, in pixels."""
        return self._since.after(self._start)

    def pause(self) -> None:
        """Leave frames out: the camera's motion over them is not seen."""
        self._start, self._since, self._before = self.view, Similarity(), None

    def update(self, frame: Image, boxes: Boxes) -> None:
        """Take the next frame, uint8[h, w, 3]; boxes: corners[n, 4] of what moves by itself."""
        if self._blind_frames:
            self._blind_frames -= 1
            return
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
            if len(self._corners) < LEAST:
                self.pause()
                self._blind_frames = BLIND_FRAMES

    def _motion(self, before: Image, grey: Image, scale: float) -> Similarity | None:
        """Return the motion between two grey pictures, in pixels of the frames; None: unclear."""
        import cv2

        since = self._since.magnified(1 / scale)
        moved, found, _ = cv2.calcOpticalFlowPyrLK(
            before,
            grey,
            _points(self._corners),
            _points(self._corners * since.turn + since.shift),
            winSize=(AROUND, AROUND),
            maxLevel=LEVELS,
            criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 10, 0.03),
            flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
        )
        seen = found.ravel() > 0
        if np.count_nonzero(seen) < LEAST:
            return None
        source, target = self._corners[seen], moved.view(np.complex64).ravel()[seen]
        # cv2's own refinement takes several times as long as all the rest here.
        agreeing = cv2.estimateAffinePartial2D(
            _points(source),
            _points(target),
            method=cv2.RANSAC,
            ransacReprojThreshold=NEAR,
            refineIters=0,
        )[1]
        agrees = agreeing.ravel() > 0
        if np.count_nonzero(agrees) < max(LEAST, LEAST_SHARE * len(source)):
            return None
        motion, spread = fitted(source[agrees], target[agrees])
        height, width = grey.shape
        if spread.real < SPREAD * width or spread.imag < SPREAD * height:
            return None
        zoomed = abs(motion.turn) / abs(self._since.turn)
        if not 1 / MAX_ZOOM < zoomed < MAX_ZOOM:
            return None
        return motion.magnified(scale)


def _points(places: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Return complex64[n], x + yi, as cv2 has points: float32[n, 1, 2]."""
    return places.view(np.float32).reshape(-1, 1, 2)


def fitted(
    source: NDArray[np.complex64], target: NDArray[np.complex64]
) -> tuple[Similarity, complex]:
    """Return the motion of least squares, and how far the source is spread.

    source, target: complex64[n], x + yi. The spread is the standard deviation of each axis.
    """
    count = len(source)
    middle, other = complex(source.sum()) / count, complex(target.sum()) / count
    away = source - middle
    x2, y2 = float(away.real @ away.real), float(away.imag @ away.imag)
    turn = complex(np.vdot(away, target)) / max(x2 + y2, 1e-9)
    spread = complex(math.sqrt(x2 / count), math.sqrt(y2 / count))
    return Similarity(turn, other - turn * middle), spread


def _grey(frame: Image) -> tuple[Image, float]:
    """Return a small grey picture, uint8[h, w], and how many pixels of the frame one of it is."""
    import cv2

    step = max(round(max(frame.shape[:2]) / (2 * SIDE)), 1)
    # Green alone, of few pixels, and halves exactly are several times as fast as a mean over all.
    green = frame[step // 2 :: step, step // 2 :: step, 1]
    height, width = (side // 2 for side in green.shape)
    if not (height and width):
        return np.zeros((1, 1), np.uint8), 1.0
    even = np.ascontiguousarray(green[: 2 * height, : 2 * width])
    small = cv2.resize(even, (width, height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, np.uint8), 2.0 * step


def _corners(grey: Image, boxes: Boxes) -> NDArray[np.complex64]:
    """Return where to follow the picture, x + yi: outside of boxes, corners[n, 4]."""
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
    return np.asarray(x + 1j * y, np.complex64)


def _reach(motion: Similarity, width: int, height: int) -> float:
    """Return by how many pixels a corner of the frame moves at most."""
    corners = (0j, complex(width), complex(0, height), complex(width, height))
    return max(abs(motion.turn * corner + motion.shift - corner) for corner in corners)
