"""A glance at a picture that says where people are, for closer looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.boxes import corners
from palmkit.kits.image import Image, Part
from palmkit.kits.kit import ModelSource
from palmkit.kits.options import Options
from palmkit.kits.portrait.network import MaskNetwork
from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import Box, Halves, box_of_people, heads_without_faces
from palmkit.kits.tracks import Tracker

# In videos the finder glances at so many frames, one after the other, and at every frame while
# heads without a face are seen.
EVERY = 4
# So long a head that is not seen any more is looked at where it was.
HELD_S = 0.3


class Finder(MaskNetwork):
    """The network of the glance."""

    def __init__(self, model: ModelSource | None, options: Options) -> None:
        """Open the model; None: the one that ships. options: the kit's."""
        super().__init__(model, options, "person_finder", stride=2)

    def people(self, picture: Halves, part: Box | None = None) -> Mask:
        """Return how likely there is somebody in a part of a picture, or in all of it.

        float32[n, n], 0..1, of the part stretched.
        """
        return self.glance(picture, part)[1]

    def glance(self, picture: Halves, part: Box | None = None) -> tuple[Image, Mask]:
        """Return what the network sees, uint8[2 * n, 2 * n, 3], and what `people` returns."""
        view = picture.glance(self.side, part)
        return view, self._mask(view)

    def box(self, picture: Halves) -> Box | None:
        """Return the part of a picture where people are; None where nobody is seen."""
        return box_of_people(self.people(picture), *picture.size)

    def heads(self, picture: Halves, faces: NDArray[np.float32]) -> list[Part]:
        """Return what to look at for the hair of people none of whose faces is among these.

        faces: float32[n, 4] of x, y, w, h in the picture's pixels.
        """
        heads = heads_without_faces(self.people(picture), faces, *picture.size)
        return [head.part for head in heads if head.is_sure]


class Heads:
    """Follows the heads of people whose faces are not seen from one frame of a video to the next.

    Each has a number that it keeps, and its square is as steady as the picture.
    """

    def __init__(self, finder: Finder) -> None:
        """Begin with the next frame."""
        self._finder = finder
        self._people, self._tracker = Steady(), Tracker()
        self._known: dict[int, tuple[Part, float]] = {}
        # Frames to come without a glance.
        self._skipped = 0

    def update(
        self, picture: Halves, faces: NDArray[np.float32], time_s: float | None
    ) -> list[tuple[int, Part]]:
        """Return each head's number, from 0 on, and what to look at for its hair.

        picture, faces: of the frame, as Finder.heads has them. time_s: strictly increasing, None of
        a picture.
        """
        if time_s is None:
            return list(enumerate(self._finder.heads(picture, faces)))
        if self._skipped:
            self._skipped -= 1
            return []
        view, people = self._finder.glance(picture)
        width, height = picture.size
        people = self._people.update(people, view, (0, 0, width, height), time_s)
        heads = heads_without_faces(people, faces, width, height)
        parts = np.array([head.part for head in heads], np.float32).reshape(-1, 4)
        sure = np.array([head.is_sure for head in heads], np.bool_)
        ids = self._tracker.update(corners(parts), sure, time_s)
        parts, ids = parts[ids >= 0], ids[ids >= 0]
        steady = self._tracker.smooth(ids, parts, parts[:, 2:].max(axis=1))
        for id, (x, y, wide, high) in zip(ids.tolist(), steady.tolist(), strict=True):
            self._known[id] = (x, y, wide, high), time_s
        self._known = {
            id: known for id, known in self._known.items() if time_s - known[1] <= HELD_S
        }
        if not self._known:
            self._skipped = EVERY - 1
        return [(id, part) for id, (part, _) in self._known.items()]
