"""A face from frame to frame: its movement, also while another face passes in front of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import Floats
from palmkit.kits.camera_motion import Similarity
from palmkit.kits.closeup import Sight
from palmkit.kits.closeup import Track as AnyTrack
from palmkit.kits.crop import Crop
from palmkit.kits.face.actions import ActionTracker
from palmkit.kits.face.smoothing import MeshFilter
from palmkit.kits.face.topology import FIRST_IRIS

# Where a face should be is told from this long ago to this long ago: the last moments before
# something hides it mislead.
MEMORY_S, MISLEADING_S = 0.7, 0.2
MIN_PLACES = 3
MAX_PLACES = 128
# A face that gets smaller than this, beside what is expected, is partly hidden.
SHRUNK = 0.93
# Faces whose boxes, so much wider and higher, touch may hide each other.
REACH = 1.2


@dataclass(frozen=True, eq=False, kw_only=True)
class Mesh(Sight):
    """A mesh on a picture: points float32[478, 3], in pixels; visibility float32[478]."""

    points: Floats
    visibility: Floats

    @property
    def outline(self) -> Floats:
        """All points but those of the irises."""
        return self.points[:FIRST_IRIS]

    def moved(self, motion: Similarity) -> Mesh:
        """Return where it is in a frame before which the camera moved so; itself, if hardly so."""
        moved = super().moved(motion)
        if moved is self:
            return self
        return replace(moved, points=motion.points_in_space(self.points))


@dataclass
class Track(AnyTrack[Mesh]):
    """A face of a video."""

    filter: MeshFilter = field(default_factory=MeshFilter)
    actions: ActionTracker = field(default_factory=ActionTracker)
    # How the camera moved since the first frame; places are in that one's pixels.
    _view: Similarity = Similarity()
    _places: deque[tuple[float, NDArray[np.float64], Crop]] = field(
        default_factory=lambda: deque(maxlen=MAX_PLACES)
    )

    def take(self, sight: Mesh, time_s: float) -> None:
        """Take the mesh of this frame; times rise from call to call."""
        super().take(sight, time_s)
        if sight.place is None:
            back = self._view.inverse
            self._places.append((time_s, back.boxes(sight.box), back.crop(sight.crop)))
        while self._places and self._places[0][0] < time_s - MEMORY_S:
            self._places.popleft()

    def move(self, motion: Similarity) -> None:
        """Go along with the camera's motion to the next frame."""
        super().move(motion)
        self._view = motion.after(self._view)

    def may_hide(self, other: Track) -> bool:
        """Return whether the two faces are so near that one may pass in front of the other."""
        a, b = self.sight.box, other.sight.box
        reach = (a[2:] - a[:2] + b[2:] - b[:2]) / 2 * REACH
        return bool((np.abs(a[:2] + a[2:] - b[:2] - b[2:]) / 2 < reach).all())

    def expected(self, time_s: float) -> tuple[Floats, Crop] | None:
        """Return box and crop if the face moved on as before; None if it was not seen for long."""
        places = [each for each in self._places if each[0] <= time_s - MISLEADING_S]
        if len(places) < MIN_PLACES:
            return None
        times_s = np.array([each[0] for each in places])
        boxes = np.stack([each[1] for each in places])
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        since_s = times_s - times_s.mean()
        speed = since_s @ centres / (since_s @ since_s)
        _, box, crop = places[-1]
        now = centres.mean(axis=0) + speed * (time_s - times_s.mean())
        x, y = (float(value) for value in now - centres[-1])
        moved = self._view.boxes(box + np.array([x, y, x, y]))
        crop = self._view.crop(replace(crop, x=crop.x + x, y=crop.y + y))
        return np.asarray(moved, np.float32), crop


def is_shrunk(mesh: Mesh, box: Floats) -> bool:
    """Return whether a mesh covers clearly less than a box."""
    sides, expected = mesh.box[2:] - mesh.box[:2], box[2:] - box[:2]
    return float(sides.prod()) < SHRUNK**2 * float(expected.prod())
