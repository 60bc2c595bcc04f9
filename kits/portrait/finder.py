"""A glance at a picture that says where people are, for closer looks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Part
from palmkit.kits.kit import ModelSource
from palmkit.kits.options import Options
from palmkit.kits.portrait.network import MaskNetwork
from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.views import Box, Halves, box_of_people, heads_without_faces


class Finder(MaskNetwork):
    """The network of the glance."""

    def __init__(self, model: ModelSource | None, options: Options) -> None:
        """Open the model; None: the one that ships. options: the kit's."""
        super().__init__(model, options, "person_finder", stride=2)

    def people(self, picture: Halves) -> Mask:
        """Return how likely there is somebody: float32[n, n], 0..1, of the picture stretched."""
        return self._mask(picture.glance(self.side))

    def box(self, picture: Halves) -> Box | None:
        """Return the part of a picture where people are; None where nobody is seen."""
        return box_of_people(self.people(picture), *picture.size)

    def heads(self, picture: Halves, faces: NDArray[np.float32]) -> list[Part]:
        """Return what to look at for the hair of people none of whose faces is among these.

        faces: float32[n, 4] of x, y, w, h in the picture's pixels.
        """
        return heads_without_faces(self.people(picture), faces, *picture.size)
