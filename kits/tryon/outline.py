"""How much of a pixel is hair along the outline of hair, where mask and picture differ.

A mask knows the outline to within a few millimetres, and draws it as sharp as its own grid is; in
the photo hair thins out towards the skin, and single hairs stand off. What the mask leaves out
stays dark round bleached hair, as a rim.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from palmkit.engine.guided import guided_upsample
from palmkit.kits.image import Image
from palmkit.kits.tryon.colour import Floats
from palmkit.kits.tryon.regions import smoothstep, soften

# The places of a centimetre in which colours are compared, at most.
FINE = 2.0
# How far from the mask's outline hair may begin or end, and from how far hair's colour and that of
# what lies beside it are taken, in centimetres: the sigma of Gaussians.
BAND_CM, AROUND_CM = 0.4, 0.8
# Of the mask blurred by the first: from where on a place shows the colour of its side.
SHOWS = (0.9, 0.99)
# The share of such places round a pixel that is enough to tell a side's colour.
ENOUGH = 0.02
# How far apart, of 255, the two colours are where a pixel's counts as much as the mask.
ALIKE = 30.0


def along_outline(picture: Image, hair: Floats, per_cm: float) -> Floats:
    """Return how much of each pixel is hair, by its colour where it is near the outline; new.

    picture: uint8[h, w, 3], a part of one. hair: float32[h, w], 0..1, one head's hair in it.
    per_cm: how many pixels a centimetre at the head is. How far on the way from the colour beside
    the hair to that of the hair a pixel's colour is says how much of it is hair; where the two
    colours are alike the mask stands.
    """
    import cv2

    height, width = hair.shape
    step = max(round(per_cm / FINE), 1)
    size = max(width // step, 1), max(height // step, 1)
    small, coarse = (
        cv2.resize(np.ascontiguousarray(each), size, interpolation=cv2.INTER_AREA)
        for each in (picture, hair)
    )
    smooth = soften(cast(Floats, coarse), BAND_CM * per_cm / step)
    lit, around = np.asarray(small, np.float32), AROUND_CM * per_cm / step
    front, in_front = _colour(lit, smoothstep(smooth, *SHOWS), around)
    back, behind = _colour(lit, smoothstep(1 - smooth, *SHOWS), around)
    way = front - back
    long = np.square(way).sum(axis=2)
    trust = 4 * smooth * (1 - smooth) * long / (long + np.float32(ALIKE**2))
    trust *= np.minimum(np.minimum(in_front, behind) * np.float32(1 / ENOUGH), 1)
    way /= np.maximum(long, 1)[..., None]
    by_colour = np.empty_like(hair)
    slopes = [np.ascontiguousarray(way[..., channel]) for channel in range(3)]
    guided_upsample(-(way * back).sum(axis=2), slopes, picture, by_colour)
    by_colour -= hair
    by_colour *= cast(Floats, cv2.resize(trust, (width, height)))
    by_colour += hair
    return by_colour


def _colour(lit: Floats, shown: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return the mean colour of a side round each place, and how much of it is seen there."""
    sums = soften(np.concatenate([lit * shown[..., None], shown[..., None]], axis=2), sigma)
    total = sums[..., 3:]
    return np.asarray(sums[..., :3] / np.maximum(total, 1e-4), np.float32), total[..., 0]
