"""A hand from one frame of a video to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.crop import Crop
from palmkit.kits.hands.crop import crop_from_landmarks, palm_size
from palmkit.kits.tracks import OneEuroFilter

# What a hand shows, and which one it is, settle over so long.
GESTURE_S = 0.15
HANDEDNESS_S = 1.0
# Another gesture must be so much more probable than the one shown before.
GESTURE_MARGIN = 0.15


@dataclass(frozen=True, eq=False)
class Look:
    """What the landmark network said of one crop.

    landmarks: float32[21, 3], pixels of the picture; presence, right: probabilities.
    gestures: float32[11], probabilities of results.GESTURES.
    """

    landmarks: NDArray[np.float32]
    presence: float
    right: float
    gestures: NDArray[np.float32]

    @property
    def box(self) -> NDArray[np.float32]:
        """float32[4]: corners of the box round the landmarks."""
        flat = self.landmarks[:, :2]
        return np.concatenate([flat.min(axis=0), flat.max(axis=0)])

    @property
    def crop(self) -> Crop:
        """Where to look at this hand more closely."""
        return crop_from_landmarks(self.landmarks)


@dataclass(eq=False)
class Track:
    """A hand known from earlier frames."""

    look: Look
    seen_s: float
    right: float
    gestures: NDArray[np.float32]
    shown: int
    speed: NDArray[np.float64] = field(default_factory=lambda: np.zeros(2))
    filter: OneEuroFilter = field(
        default_factory=lambda: OneEuroFilter(min_cutoff_hz=1.5, beta=8.0, speed_cutoff_hz=2.0)
    )

    @staticmethod
    def begin(look: Look, time_s: float) -> Track:
        """A hand seen for the first time."""
        return Track(look, time_s, look.right, look.gestures, int(look.gestures.argmax()))

    def take(self, look: Look, time_s: float) -> None:
        """Take in what is seen of it in a later frame."""
        step_s = time_s - self.seen_s
        if step_s <= 0:
            return
        moved = (look.landmarks - self.look.landmarks)[:, :2].mean(axis=0)
        self.speed = 0.5 * self.speed + 0.5 * moved / step_s
        self.right += -math.expm1(-step_s / HANDEDNESS_S) * (look.right - self.right)
        settled = np.float32(-math.expm1(-step_s / GESTURE_S))
        self.gestures = self.gestures + settled * (look.gestures - self.gestures)
        best = int(self.gestures.argmax())
        if self.gestures[best] > self.gestures[self.shown] + GESTURE_MARGIN:
            self.shown = best
        self.look, self.seen_s = look, time_s

    def expected_crop(self, time_s: float) -> Crop:
        """Where it should be now."""
        crop = self.look.crop
        x, y = np.clip(self.speed * (time_s - self.seen_s) / crop.side, -0.5, 0.5) * crop.side
        return Crop(crop.x + float(x), crop.y + float(y), crop.side, crop.angle)

    def steady(self, time_s: float) -> NDArray[np.float32]:
        """Its landmarks in the frame just taken, smoothed: float32[21, 3]."""
        landmarks = self.look.landmarks
        return self.filter.filter(landmarks, time_s, max(palm_size(landmarks), 1.0))
