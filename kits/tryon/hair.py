"""Dye for hair.

Each pixel's lightness is what is round it, the base, and what it has more or less than that, the
detail: strands and their shine. The base is brought to the dye's lightness, roots and shade with
it, and the detail is laid back on with about the contrast that hair of that lightness has, inside
the room that there is up to white and down to black. At its edge, where hair and background mix,
only the hair's part of the mixture changes: what is seen through it stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.tryon.canvas import Canvas, Memory
from palmkit.kits.tryon.colour import Finish, Floats, mean_of, to_lab, to_rgb
from palmkit.kits.tryon.effect import Effect
from palmkit.kits.tryon.regions import soften

# A mask's values that count as none and as all hair, where it is no opacity.
NONE, ALL = 0.12, 0.88
# The opacity below which nothing is dyed.
LEAST = 1 / 64
# The size of what is shade and not strands: a Gaussian's sigma, in centimetres, and in pixels of
# the grid that it is computed on.
SHADE_CM, GRID_SIGMA = 0.9, 2.0
# How a difference of lightness grows with the hair's own, as a power of the ratio: shade and
# strands of hair that is bleached, and of hair that is darkened.
SHADE_UP, SHADE_DOWN, STRANDS_UP, STRANDS_DOWN = 0.5, 0.9, 0.38, 0.7
# The most that strands gain.
MOST_GAIN = 1.9
# Lightness that counts as black, so that nothing is divided by less; that of what is white.
BLACK, WHITE = 4.0, 98.0
# The share of the room down to black that the darkest strand takes.
DEPTH = 0.85
# The share left of differences of hue, and that of the lights by finish.
MOTTLE = 0.35
LIGHTS = {"matte": 0.55, "satin": 1.0, "gloss": 1.45}


# A pixel as one value, which is moved faster than three.
PIXEL = np.dtype("V3")


@dataclass(frozen=True)
class HairDye(Effect):
    """The colour of the hair; strands, shine, roots and shade stay, dark hair is bleached first.

    It takes the opacity of a head's hair, not a face.
    """

    name: ClassVar[str] = "hair"
    finishes: ClassVar[tuple[Finish, ...]] = ("matte", "satin", "gloss")

    opacity: float = 0.8

    def lay(self, canvas: Canvas) -> None:
        """Do nothing, as hair reaches beyond the face."""

    def dye(
        self, picture: Image, hair: Floats, per_cm: float, memory: Memory, time_s: float | None
    ) -> None:
        """Dye the hair of a head.

        picture: uint8[h, w, 3], a part of one, changed in place. hair: float32[h, w], 0..1, how
        much of each pixel is this hair. per_cm: how many pixels a centimetre at the head is.
        """
        import cv2

        where = np.flatnonzero(hair > LEAST)
        if not len(where):
            return
        shade, mean = _shade(picture, hair, per_cm)
        mean = memory.settle(self.name, mean, time_s)
        shade = np.concatenate([shade, self._moved(shade[..., :1], mean)], axis=2)
        shade = cast(Floats, cv2.resize(shade, hair.shape[::-1]))
        # Only the pixels of hair, as one row.
        copied = np.ascontiguousarray(picture)
        pixels = copied.reshape(-1).view(PIXEL)
        weight = hair.reshape(-1).take(where)
        own = _planes(to_lab(pixels[where].view(np.uint8).reshape(1, -1, 3))[0])
        base = _planes(shade.reshape(-1, 4).take(where, axis=0))
        new, old = self._dyed(own, base, weight * weight * weight, mean)
        light = own[0].copy()
        weight *= np.float32(self.opacity)
        for plane, dyed, hairs in zip(own, new, old, strict=True):
            plane += weight * (dyed - hairs)
        # What lies between dyed hair and a background is no lighter or darker than both.
        np.clip(own[0], np.minimum(light, new[0]), np.maximum(light, new[0]), out=own[0])
        pixels[where] = to_rgb(np.ascontiguousarray(own.T)[None]).view(PIXEL).reshape(-1)
        picture[:] = copied

    def _lift(self, mean: Floats) -> tuple[float, float]:
        """Return the lightness of the dye, and how many times as light as the hair it is."""
        after = max(float(self.lab[0]), BLACK)
        return after, after / max(float(mean[0]), BLACK)

    def _moved(self, shade: Floats, mean: Floats) -> Floats:
        """Return how much lighter than the dye dyed hair is, where its own shade is this light."""
        after, lift = self._lift(mean)
        light = np.maximum(shade * np.float32(lift / after), np.float32(0.05))
        power = np.float32(SHADE_UP if lift > 1 else SHADE_DOWN)
        return np.asarray((light**power - 1) * np.float32(after), np.float32)

    def _dyed(
        self, own: Floats, base: Floats, sure: Floats, mean: Floats
    ) -> tuple[list[Floats], list[Floats]]:
        """Return the dyed hair's planes and those of the hair as it is, of n pixels each.

        own: float32[3, n], the pixels. base: float32[4, n], the hair round them, and `_moved`.
        sure: float32[n]: what a mixed pixel has more or less than the hair round it is more the
        background's.
        """
        after, lift = self._lift(mean)
        strands = min(lift ** (STRANDS_UP if lift > 1 else STRANDS_DOWN), MOST_GAIN)
        detail = (own[0] - base[0]) * sure
        off = base[3] + detail * np.float32(strands)
        room, depth = max(WHITE - after, 4.0), DEPTH * after
        # Towards white and black all that is left of the room is shared, so that nothing is cut.
        up = _limited(np.maximum(off, 0) * np.float32(LIGHTS[self.finish]), room)
        new = np.float32(after) + up - _limited(np.maximum(-off, 0), depth)
        # A shadow has less of the colour, as it has less light; a highlight has the light's own.
        tint = np.minimum(new * np.float32(1 / after), 1)
        tint *= 1 - np.square(up * np.float32(1 / max(100 - after, 12.0)))
        planes, hairs = [new], [base[0] + detail]
        for axis in (1, 2):
            hue = base[axis] + (own[axis] - base[axis]) * sure
            mottled = hue * np.float32(MOTTLE) + np.float32(self.lab[axis] - MOTTLE * mean[axis])
            planes.append(tint * mottled)
            hairs.append(hue)
        return planes, hairs


def _shade(picture: Image, hair: Floats, per_cm: float) -> tuple[Floats, Floats]:
    """Return the hair's colour without its strands, float32[n, m, 3], and its mean."""
    import cv2

    height, width = hair.shape
    step = max(round(SHADE_CM * per_cm / GRID_SIGMA), 1)
    size = max(width // step, 1), max(height // step, 1)
    # Whole squares alone, and of large ones a part of the pixels: their means are quick.
    stride = max(step // 3, 1)
    rows, columns = slice(0, size[1] * step, stride), slice(0, size[0] * step, stride)
    small, weight = (
        cv2.resize(np.ascontiguousarray(each[rows, columns]), size, interpolation=cv2.INTER_AREA)
        for each in (picture, hair)
    )
    lab, weight = to_lab(cast(Image, small)), cast(Floats, weight)
    mean = mean_of(lab, weight * weight)
    # Far from any hair that is sure it is the mean.
    weight = (weight * weight * weight)[..., None]
    sums = soften(np.concatenate([lab * weight, weight], axis=2), SHADE_CM * per_cm / step)
    sums += np.float32(0.01) * np.append(mean, np.float32(1))
    return np.asarray(sums[..., :3] / sums[..., 3:], np.float32), mean


def _limited(values: Floats, room: float) -> Floats:
    """Return values from 0 up, bent so that they stay below `room`."""
    import cv2

    bent = cast(Floats, cv2.exp(values * np.float32(-1 / room))).reshape(values.shape)
    return np.asarray((1 - bent) * np.float32(room), np.float32)


def _planes(lab: Floats) -> Floats:
    return np.ascontiguousarray(lab.T)


def coverage(mask: Floats) -> Floats:
    """Return how far hair covers each pixel, float32[h, w], 0..1, by its mask alone; new."""
    found = mask - np.float32(NONE)
    found *= np.float32(1 / (ALL - NONE))
    return np.clip(found, 0, 1, out=found)
