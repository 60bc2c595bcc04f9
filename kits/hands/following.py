"""A hand from frame to frame: steady landmarks, a side that stays, gestures that do not flicker."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.closeup import STILL, Sight, Track
from palmkit.kits.crop import Crop
from palmkit.kits.hands.crop import palm_size
from palmkit.kits.tracks import OneEuroFilter

# How long it takes until new answers outweigh old ones.
GESTURE_S, SIDE_S = 0.06, 0.6
# Doubt must not change what is shown: a new gesture must be this much likelier.
MARGIN = 0.05


@dataclass(frozen=True, eq=False, kw_only=True)
class HandSight(Sight):
    """A hand on a picture.

    landmarks: float32[21, 3], in pixels; right: probability of a right hand; gestures: float32[m],
    probability of each.
    """

    landmarks: Floats
    right: float
    gestures: Floats

    @property
    def outline(self) -> Floats:
        """All landmarks."""
        return self.landmarks

    def moved(self, motion: Similarity) -> HandSight:
        """Return where it is in a frame before which the camera moved so."""
        return replace(super().moved(motion), landmarks=motion.points_in_space(self.landmarks))


class GestureFilter:
    """The gesture of a hand over time.

    Probabilities are averaged, and a gesture counts once it has been the likeliest for `hold_s`;
    until then the one before goes on. A hand that has shown none for so long shows `rest`.
    """

    def __init__(self, rest: int, hold_s: float) -> None:
        """Start without a gesture.

        rest: index of the gesture for no gesture.
        """
        self.shown = rest
        self._hold_s = hold_s
        self._mean: NDArray[np.float64] | None = None
        self._last_s = 0.0
        self._best: int = rest
        self._since_s = 0.0

    def update(self, gestures: Floats, time_s: float) -> tuple[int, float]:
        """Return index and probability of the gesture at `time_s`; times rise from call to call."""
        if self._mean is None:
            self._mean = gestures.astype(np.float64)
        else:
            weight = 1 - math.exp(-(time_s - self._last_s) / GESTURE_S)
            self._mean += weight * (gestures - self._mean)
        self._last_s = time_s
        best = int(self._mean.argmax())
        if self._mean[best] < self._mean[self.shown] + MARGIN:
            best = self.shown
        if best != self._best:
            self._best, self._since_s = best, time_s
        # Half a millisecond for the rounding of times.
        if time_s - self._since_s >= self._hold_s - 5e-4:
            self.shown = best
        return self.shown, float(self._mean[self.shown])


@dataclass
class HandTrack(Track[HandSight]):
    """A hand of a video."""

    gestures: GestureFilter
    right: float = 0.5
    _speed: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    _landmarks: OneEuroFilter = field(default_factory=OneEuroFilter)
    _first_s: float | None = None
    _last_s: float = 0.0

    def take(self, sight: HandSight, time_s: float) -> None:
        """Take what is seen of it in this frame."""
        if time_s > self._last_s and self._first_s is not None:
            moved = (sight.landmarks - self.sight.landmarks)[:, :2].mean(axis=0)
            self._speed += 0.5 * (moved / (time_s - self._last_s) - self._speed)
        super().take(sight, time_s)
        if self._first_s is None:
            self._first_s, self.right = time_s, sight.right
        else:
            # The plain mean at first, then an exponential one.
            step_s = time_s - self._last_s
            weight = step_s / min(max(time_s - self._first_s, 2 * step_s), SIDE_S)
            self.right += min(weight, 1.0) * (sight.right - self.right)
        self._last_s = time_s

    def expected_crop(self, time_s: float) -> Crop:
        """Return the crop to look at at `time_s`; it is unchanged for a hand that hardly moves."""
        crop = self.sight.crop
        x, y = np.clip(self._speed * (time_s - self.seen_s) / crop.side, -0.5, 0.5)
        if math.hypot(x, y) < STILL[0]:
            return crop
        return replace(crop, x=crop.x + float(x) * crop.side, y=crop.y + float(y) * crop.side)

    def steady(self) -> Floats:
        """Return the landmarks of this frame, smoothed; call it once a frame."""
        landmarks = self.sight.landmarks
        return self._landmarks.filter(landmarks, self.seen_s, max(palm_size(landmarks), 1.0))
