"""Training faces that are turned further than they were, as the teacher sees them.

Few photos show faces beyond 30 degrees, and a network learns those by heart. So photos are warped
by the meshes of their faces, further the way they look, and labelled anew: a turned mesh is not
quite what the teacher sees of the turned face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import crop_from_mesh
from palmkit.models.face_mesh.acting import turn, warp
from palmkit.models.face_mesh.labels import Label, eye_distance, label_from, yaw_of
from palmkit.models.face_mesh.teacher import Array, Picture, Teacher

# A face's picture is so many sides of its crop, in pixels between two bounds.
WIDE, SMALLEST, LARGEST = 2.2, 170, 420
# Degrees to which faces are turned, by which they are at most and at least, and by which they are
# bent on the way. Teachers see some four fifths of it.
TO, MOST, LEAST, BENT = (32, 70), 36, 8, 4
# Degrees from which on a face looks one way, and from which on it is turned twice.
ASIDE, TWICE = 6, 8
# What is kept: how sure the teacher is, how much its views differ, how far it is from the turned
# mesh, in distances of the eyes, and from how many degrees on.
LEAST_PRESENCE, MOST_SPREAD, MOST_OFF, LEAST_YAW = 0.9, 0.06, 0.15, 20


class Turned(NamedTuple):
    """A picture of a face that was turned, and what the teacher sees in it."""

    picture: Picture
    label: Label
    yaw: float


def turned_faces(
    teacher: Teacher, read: Callable[[], Picture], crop: Crop, points: Array, seed: int
) -> Iterator[Turned]:
    """Yield a face turned further: no, one or two times.

    read: reads the picture. crop, points: its label, see labels.
    """
    random = np.random.default_rng([11, seed])
    yaw = yaw_of(points)
    wide = crop.moved(0, 0, WIDE)
    side = int(np.clip(round(wide.side), SMALLEST, LARGEST))
    mesh = points.astype(np.float64) / WIDE * side
    mesh[:, :2] += (0.5 - 0.5 / WIDE) * side
    picture: Picture | None = None
    for _ in range(2 if abs(yaw) > TWICE else 1):
        way = float(np.sign(yaw) if abs(yaw) > ASIDE else random.choice([-1, 1]))
        more = min(random.uniform(*TO) - way * yaw, MOST)
        if more < LEAST:
            continue
        if picture is None:
            picture = sample(read(), wide, side)
        aim = turn(-way * more, float(random.normal(0, BENT)))(mesh, 1.0)
        drawn, meant = warp(picture, mesh, aim), aim.astype(np.float32)
        found = label_from(teacher, drawn, crop_from_mesh(meant), random)
        away = np.linalg.norm((found.crop.to_picture(found.points) - meant)[:, :2], axis=1).mean()
        seen = Turned(drawn, found, yaw_of(found.points))
        sure = found.presence > LEAST_PRESENCE and found.spread < MOST_SPREAD
        if sure and away < MOST_OFF * eye_distance(meant) and abs(seen.yaw) > LEAST_YAW:
            yield seen
