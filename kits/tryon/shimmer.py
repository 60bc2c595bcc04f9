"""Sparkles in make-up."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

import numpy as np

from palmkit.kits.tryon import regions
from palmkit.kits.tryon.canvas import Canvas
from palmkit.kits.tryon.colour import Floats

# How light a grain is, and how many are beside each other.
_SPARKLE = 34.0
_GRAINS_PER_CM = 22


@lru_cache(maxsize=1)
def _grains() -> Floats:
    """Return sparkles on the canonical face, 24 cm wide and high; the same in every frame."""
    side = 24 * _GRAINS_PER_CM
    noise = np.random.default_rng(7).standard_normal((side, side)).astype(np.float32)
    grains = regions.soften(noise, 0.6)
    grains /= grains.std()
    return np.asarray(np.clip(grains - 1.2, 0, 2) * np.float32(_SPARKLE / 2), np.float32)


def sparkle(
    canvas: Canvas, points: tuple[int, ...], shape: tuple[int, ...], corner: Floats
) -> Floats:
    """Return grains fixed to the face: float32[h, w] of lightness, of a part at `corner`."""
    import cv2

    at = canvas.affine(points)
    # From the texture's pixels to centimetres, y up, then to the part.
    scale = 1 / _GRAINS_PER_CM
    to_cm = np.array([[scale, 0, -12], [0, -scale, 12], [0, 0, 1]])
    matrix = at @ to_cm
    matrix[:, 2] -= corner
    size = (shape[1], shape[0])
    return cast(Floats, cv2.warpAffine(_grains(), matrix, size, flags=cv2.INTER_AREA))
