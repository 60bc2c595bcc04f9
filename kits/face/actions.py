"""What a face does: MNNKit's five actions, from pose-invariant ratios of its mesh.

Distances are taken in all three dimensions. The thresholds were chosen for the shipped model on
training pictures, by eye for what the teacher's meshes show of them, and on clips made from them
(palmkit.models.face_mesh.acting); those of movements are plain choices, since there are no training
videos.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.results import ACTIONS

# Upper and lower lid, outer to inner; the eye's corners; the upper edge of the brow.
_RIGHT = ((160, 159, 158), (144, 145, 153), (33, 133), (63, 105, 66))
_LEFT = ((387, 386, 385), (373, 374, 380), (263, 362), (293, 334, 296))
_INNER_LIPS = (13, 14, 78, 308)
_MEASURED = (*(index for part in (*_RIGHT, *_LEFT) for index in part), *_INNER_LIPS)
# The far eye is only guessed: from this yaw on only the near one counts.
NEAR_EYE_YAW = 30.0

CLOSED_EYE = 0.10
OPEN_MOUTH, SHUT_MOUTH = 0.30, 0.24
RAISED_BROW = 0.41
TURNED_YAW, TURNED_PITCH = 25.0, 20.0

# In a video an eye is closed at less than this part of how far it was open, until it passes that.
CLOSING, OPENING = 0.55, 0.68
# A face seen first with its eyes closed is taken to open them at least this far.
LEAST_OPEN_EYE = 0.16
OPEN_EYE_DECAY_S = 15.0
JUMP, JUMP_END = 1.09, 1.045
NEUTRAL_S, NEUTRAL_RAISED_S, NEUTRAL_MIN_S = 1.5, 15.0, 0.5
# A shake or a nod goes there and back within this time.
SWING_S = 1.5
SHAKE_DEGREES, NOD_DEGREES, SWING_END = 15.0, 10.0, 0.6
MAX_FRAMES = 128


@dataclass(frozen=True)
class Ratios:
    """The ratios of one face.

    eye: opening of the eyes over their width. mouth: distance of the lips over the mouth's width.
    brow: height of the brows above the eyes over the distance of the eyes' outer corners. yaw,
    pitch: in degrees, as in pose.head_pose.
    """

    eye: float
    mouth: float
    brow: float
    yaw: float
    pitch: float

    def actions(self) -> NDArray[np.bool_]:
        """Return bool[5] for results.ACTIONS, from this one picture; head_*: turned away."""
        return np.array(
            [
                self.eye < CLOSED_EYE,
                self.mouth > OPEN_MOUTH,
                abs(self.yaw) > TURNED_YAW,
                abs(self.pitch) > TURNED_PITCH,
                self.brow > RAISED_BROW,
            ]
        )


def ratios(mesh: NDArray[Any], angles: NDArray[Any]) -> Ratios:
    """Measure a mesh float32[478, 3] whose head is turned by float32[3] of yaw, pitch, roll."""
    yaw = float(angles[0])
    left = min(max(0.5 + yaw / (2 * NEAR_EYE_YAW), 0), 1)
    # For so few points plain numbers are faster than arrays.
    points = dict(zip(_MEASURED, mesh[list(_MEASURED)].tolist(), strict=True))
    across = max(math.dist(points[33], points[263]), 1e-9)
    eye = brow = 0.0
    for (upper, lower, corners, edge), share in ((_RIGHT, 1 - left), (_LEFT, left)):
        outer, inner = (points[corner] for corner in corners)
        lids = [math.dist(points[a], points[b]) for a, b in zip(upper, lower, strict=True)]
        eye += share * (sum(lids) / len(lids)) / max(math.dist(outer, inner), 1e-9)
        brow_middle = _middle(*(points[index] for index in edge))
        brow += share * math.dist(brow_middle, _middle(outer, inner)) / across
    top, bottom, right_corner, left_corner = (points[index] for index in _INNER_LIPS)
    mouth = math.dist(top, bottom) / max(math.dist(right_corner, left_corner), 1e-9)
    return Ratios(eye, mouth, brow, yaw, float(angles[1]))


class ActionTracker:
    """The actions of one face in a video.

    eye_blink: the eyes are closed, relative to how far this face had them open. mouth_open: wide.
    head_yaw: the head is shaken: it turned aside and back in the last 1.5 s. head_pitch: it nods,
    likewise. brow_jump: the brows are higher than this face's usual.
    """

    def __init__(self) -> None:
        """Start with a face not seen yet."""
        self._state: dict[str, bool] = dict.fromkeys(ACTIONS, False)
        self._open_eye = 0.0
        self._brow: float | None = None
        self._start_s = self._last_s = 0.0
        self._heads: deque[tuple[float, float, float]] = deque(maxlen=MAX_FRAMES)

    def update(self, seen: Ratios, time_s: float) -> NDArray[np.bool_]:
        """Return bool[5] for results.ACTIONS; times rise from call to call."""
        if self._brow is None:
            self._start_s = self._last_s = time_s
        step_s, self._last_s = time_s - self._last_s, time_s
        self._eye(seen.eye, step_s)
        self._set("mouth_open", seen.mouth, OPEN_MOUTH, SHUT_MOUTH)
        self._raise(seen.brow, step_s, time_s)
        self._heads.append((time_s, seen.yaw, seen.pitch))
        while self._heads[0][0] < time_s - SWING_S:
            self._heads.popleft()
        heads = np.array(self._heads)
        self._set("head_yaw", swing(heads[:, 1]), SHAKE_DEGREES, SHAKE_DEGREES * SWING_END)
        self._set("head_pitch", swing(heads[:, 2]), NOD_DEGREES, NOD_DEGREES * SWING_END)
        return np.array([self._state[name] for name in ACTIONS])

    def _set(self, name: str, value: float, on: float, off: float) -> None:
        self._state[name] = value > (off if self._state[name] else on)

    def _eye(self, eye: float, step_s: float) -> None:
        decayed = self._open_eye * (1 - min(step_s / OPEN_EYE_DECAY_S, 1))
        self._open_eye = max(decayed, eye, LEAST_OPEN_EYE)
        limit = OPENING if self._state["eye_blink"] else CLOSING
        self._state["eye_blink"] = eye < limit * self._open_eye

    def _raise(self, brow: float, step_s: float, time_s: float) -> None:
        usual = brow if self._brow is None else self._brow
        self._set("brow_jump", brow / max(usual, 1e-9), JUMP, JUMP_END)
        if time_s - self._start_s < NEUTRAL_MIN_S:
            self._state["brow_jump"] = False
        pace_s = NEUTRAL_RAISED_S if self._state["brow_jump"] else NEUTRAL_S
        self._brow = usual + min(step_s / pace_s, 1) * (brow - usual)


def swing(angles: NDArray[Any]) -> float:
    """Return how far float[n] went there and back at most; 0 for a single turn."""
    there_up = angles - np.minimum.accumulate(angles)
    back_down = angles - np.minimum.accumulate(angles[::-1])[::-1]
    there_down = np.maximum.accumulate(angles) - angles
    back_up = np.maximum.accumulate(angles[::-1])[::-1] - angles
    peak, trough = np.minimum(there_up, back_down), np.minimum(there_down, back_up)
    return float(max(peak.max(), trough.max()))


def _middle(*points: list[float]) -> list[float]:
    return [sum(axis) / len(points) for axis in zip(*points, strict=True)]
