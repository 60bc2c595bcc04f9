"""The 21 landmarks of a hand: their meaning, the bones between them, and hands made of angles.

0 is the wrist; 1 to 4 the thumb, 5 to 8 the index finger, 9 to 12 the middle, 13 to 16 the ring and
17 to 20 the little finger, each from base to tip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats

LANDMARKS = 21
PALM_BONES = ((0, 1), (0, 5), (5, 9), (9, 13), (13, 17), (0, 17))
FINGER_BONES = tuple((base + i, base + i + 1) for base in (1, 5, 9, 13, 17) for i in range(3))

# Of a right hand whose palm is seen, fingers up: x, y of the bases of thumb and fingers, how the
# fingers stand apart (degrees), and the lengths of their bones, over the length of the palm.
_BASES = ((0.22, -0.18), (0.28, -0.94), (0.04, -1.0), (-0.17, -0.94), (-0.35, -0.82))
_SPLAY = (7.0, 1.0, -5.0, -13.0)
_BONES = (
    (0.40, 0.32, 0.27),
    (0.45, 0.27, 0.22),
    (0.50, 0.31, 0.23),
    (0.46, 0.29, 0.23),
    (0.36, 0.21, 0.19),
)
# What a drawing of the palm fills: the landmarks round it, and thick lines along these.
PALM_HULL = (0, 1, 2, 5, 9, 13, 17)
_PALM_LINES = ((0, 5), (0, 17), (0, 1), (5, 17), (5, 9), (9, 13), (13, 17))
# Of the four joints of each finger, by its first landmark, over the length of the palm.
_RADII = {
    1: (0.2, 0.155, 0.135, 0.11),
    5: (0.135, 0.125, 0.115, 0.1),
    9: (0.14, 0.13, 0.12, 0.105),
    13: (0.135, 0.12, 0.11, 0.1),
    17: (0.115, 0.105, 0.095, 0.085),
}
_RIM = 0.022
STRAIGHT, CURLED = (5.0, 5.0, 3.0), (75.0, 95.0, 55.0)
ASIDE, AWAY, ACROSS = (48.0, -4.0, 10.0), (75.0, 4.0, 5.0), (40.0, 45.0, 30.0)

Joints = tuple[float, float, float]
# From, to, the radius there and there, and the colour's share of the skin's.
Limb = tuple[NDArray[np.float64], NDArray[np.float64], float, float, float]


@dataclass(frozen=True)
class Pose:
    """How a hand is held; angles in degrees.

    thumb: its angle to the fingers' direction, its bend across the palm at each joint, and its
    angle out of the palm. index, middle, ring, little: their bend at base, middle and last joint.
    up: the up direction, clockwise from the direction of the straight fingers.
    """

    thumb: Joints = ACROSS
    index: Joints = CURLED
    middle: Joints = CURLED
    ring: Joints = CURLED
    little: Joints = CURLED
    up: float = 0.0

    def landmarks(self, yaw: float = 0.0) -> Floats:
        """Return float32[21, 3] of a right hand, in lengths of its palm, in a picture: y down.

        yaw: degrees by which it rotates about its length; 0: the palm is seen, 180: the back.
        """
        points = np.zeros((LANDMARKS, 3))
        aside, bend, out = self.thumb
        directions = [_direction(aside - i * bend, out * (1 - i / 4)) for i in range(3)]
        _lay(points, 0, directions)
        fingers = (self.index, self.middle, self.ring, self.little)
        for number, (joints, splay) in enumerate(zip(fingers, _SPLAY, strict=True), 1):
            # A finger that bends at its base comes nearer to the others.
            near = splay * max(math.cos(math.radians(joints[0])), 0)
            _lay(points, number, [_direction(near, bent) for bent in np.cumsum(joints).tolist()])
        turn = math.radians(yaw)
        x, z = points[:, 0].copy(), points[:, 2].copy()
        points[:, 0] = math.cos(turn) * x - math.sin(turn) * z
        points[:, 2] = math.sin(turn) * x + math.cos(turn) * z
        roll = math.radians(-self.up) * math.cos(turn)
        cos, sin = math.cos(roll), math.sin(roll)
        points[:, :2] = points[:, :2] @ np.array([[cos, sin], [-sin, cos]])
        return points.astype(np.float32)


def _straight(thumb: Joints = ACROSS, index: Joints = STRAIGHT) -> Pose:
    return Pose(thumb, index, STRAIGHT, STRAIGHT, STRAIGHT)


# What hands in the gestures that the model knows look like; several poses where they differ.
POSES: dict[str, tuple[Pose, ...]] = {
    "fist": (Pose(),),
    "open_palm": (_straight(ASIDE), _straight((25.0, 0.0, 5.0))),
    "one": (Pose(index=STRAIGHT),),
    "two": (Pose(index=STRAIGHT, middle=STRAIGHT),),
    "three": (
        Pose(index=STRAIGHT, middle=STRAIGHT, ring=STRAIGHT),
        Pose(ASIDE, index=STRAIGHT, middle=STRAIGHT),
    ),
    "four": (_straight(),),
    "ok": (_straight((38.0, 0.0, 40.0), (55.0, 55.0, 15.0)),),
    "thumb_up": (Pose(AWAY, up=75.0),),
    "thumb_down": (Pose(AWAY, up=-105.0),),
    "finger_heart": (Pose((30.0, 10.0, 40.0), index=(45.0, 55.0, 20.0)),),
}


def _direction(aside: float, forward: float) -> tuple[float, float, float]:
    """Return a unit vector at these angles (degrees) from up to the thumb's side and forward."""
    a, f = math.radians(aside), math.radians(forward)
    return math.sin(a) * math.cos(f), -math.cos(a) * math.cos(f), -math.sin(f)


def _lay(
    points: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    number: int,
    directions: list[tuple[float, float, float]],
) -> None:
    first = 1 + 4 * number
    points[first, :2] = _BASES[number]
    for step, (direction, length) in enumerate(zip(directions, _BONES[number], strict=True)):
        points[first + step + 1] = points[first + step] + length * np.array(direction)


def limbs(points: NDArray[np.float64], palm: float) -> Iterator[Limb]:
    """Yield what a drawing of a hand lays over its palm's hull, one rounded cone over another.

    points: float64[21, 3], pixels. palm: its length in pixels.
    """
    flat = points[:, :2]
    for a, b in _PALM_LINES:
        yield flat[a], flat[b], 0.17 * palm, 0.15 * palm, 0.97
    # The farthest first.
    for base in sorted(_RADII, key=lambda first: -float(points[first : first + 4, 2].mean())):
        radii = np.array(_RADII[base])
        for rim, share in ((_RIM, 0.62), (0.0, 1.0)):
            for i in range(3):
                start = flat[base + i]
                if rim and i == 0 and base != 1:
                    start = 0.6 * start + 0.4 * flat[base + 1]
                near, far = ((radii[i : i + 2] + rim) * palm).tolist()
                yield start, flat[base + i + 1], near, far, share
