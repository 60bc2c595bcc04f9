"""A steady mesh over time: the face's movement and its shape are smoothed separately."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.face.pose import RIGID
from palmkit.kits.face.topology import MIRROR
from palmkit.kits.tracks import OneEuroFilter

_ROWS = np.array(RIGID, np.intp)
# Of the right half of the face -1, of the left one 1.
_ACROSS = np.sign(_ROWS - MIRROR[_ROWS]).astype(np.float64)


class MeshFilter:
    """Smooths the mesh of one face.

    Position, size and rotation of the face in the picture are means of many points and hardly
    jitter, so they are smoothed little and hardly lag. What is left, the shape in a frame that
    moves with the face, is smoothed more. Both use one-euro filters (see tracks), in units of the
    face's size: near and far faces are smoothed alike.
    """

    def __init__(self) -> None:
        """Start with a face not seen yet."""
        self._place = OneEuroFilter(min_cutoff_hz=2.0, beta=20.0, speed_cutoff_hz=2.0)
        self._turn = OneEuroFilter(min_cutoff_hz=1.5, beta=10.0, speed_cutoff_hz=2.0)
        self._shape = OneEuroFilter(min_cutoff_hz=1.0, beta=30.0, speed_cutoff_hz=3.0)
        self._angle = 0.0

    def filter(self, mesh: NDArray[Any], time_s: float) -> NDArray[np.float32]:
        """Return the mesh float32[478, 3] at `time_s`, smoothed; times rise from call to call."""
        rigid = np.asarray(mesh, np.float64)[_ROWS, :2]
        centre = rigid.mean(axis=0)
        # About half of the face's width.
        size = max(math.sqrt(float(((rigid - centre) ** 2).sum(axis=1).mean())), 1e-6)
        across = _ACROSS @ rigid
        # Unwound, so that a head that turns upside down does not jump by a whole turn.
        angle = math.atan2(across[1], across[0])
        self._angle += math.remainder(angle - self._angle, 2 * math.pi)
        raw = np.empty(mesh.shape)
        raw[:, :2] = (mesh[:, :2] - centre) @ _rotation(self._angle) / size
        raw[:, 2] = mesh[:, 2] / size
        shape = self._shape.filter(raw, time_s)
        x, y = (float(value) for value in self._place.filter(centre, time_s, size))
        moved = np.array([math.log(size), self._angle])
        log_size, angle = (float(value) for value in self._turn.filter(moved, time_s))
        size = math.exp(log_size)
        out = np.empty(mesh.shape, np.float32)
        out[:, :2] = shape[:, :2] @ _rotation(angle).T * size + np.array([x, y])
        out[:, 2] = shape[:, 2] * size
        return out


def _rotation(angle: float) -> NDArray[np.float64]:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin], [sin, cos]])
