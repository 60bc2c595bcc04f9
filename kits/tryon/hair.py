"""Dye for hair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.tryon.canvas import Canvas, Memory
from palmkit.kits.tryon.colour import Finish, Floats, dye, mean_of, to_lab, to_rgb
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.regions import smoothstep

# A mask's values that count as none and as all hair.
_NONE, _ALL = 0.12, 0.75


@dataclass(frozen=True)
class HairDye(Effect):
    """The colour of the hair; strands, shine and shade stay, dark hair is bleached first.

    It takes a hair mask, not a face: all hair of the picture.
    """

    name: ClassVar[str] = "hair"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "gloss")

    opacity: float = 0.8

    def lay(self, canvas: Canvas) -> None:
        """Do nothing, as hair is dyed in the whole picture."""

    def weight(self, mask: Floats) -> Floats:
        """Return how far the dye covers each pixel of a hair mask, 0..1."""
        return smoothstep(mask, _NONE, _ALL)

    def dye(self, picture: Image, mask: Floats, memory: Memory, time_s: float | None) -> None:
        """Dye the hair.

        picture: uint8[h, w, 3], contiguous, changed in place. mask: float32[h, w], 0..1, of hair.
        """
        where = np.flatnonzero(mask > _NONE)
        if not len(where):
            return
        # Only the pixels of hair, as one row.
        pixels = picture.reshape(-1, 3)
        weight = self.weight(mask.reshape(-1)[where])[None]
        lab = to_lab(pixels.take(where, axis=0)[None])
        base = memory.settle(self.name, mean_of(lab, weight), time_s)
        # Hair has many tones: those half as light as the mean stay so.
        dye(lab, weight * np.float32(self.opacity), self.lab, base, self.finish)
        pixels[where] = to_rgb(lab)[0]
