"""Hats: which pictures show one, and where it is, so that the hair network learns to leave it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from palmkit.models.segmentation.by_eye import largest_piece, read_list
from palmkit.models.segmentation.crop import Array, Picture

# Of the longer side of the face's box: how far above the eyes a hat begins, how far up and to
# both sides it may reach, and where skin is looked for.
BROWS, HIGH, WIDE = 0.16, 1.9, 1.6
# How far a colour may be from the face's (CIELAB, lightness counts half) to be the forehead.
LIKE_SKIN = 11.0


class Hats(NamedTuple):
    """Files of pictures: worn, with true masks; uncut, as these; mistaken, taken for hair."""

    worn: frozenset[str]
    uncut: frozenset[str]
    mistaken: frozenset[str]


@lru_cache(maxsize=1)
def hats() -> Hats:
    """Return the list, which was made by eye."""
    found: dict[str, Any] = read_list("hats")
    return Hats(*(frozenset(found[name]) for name in Hats._fields))


def hat_mask(
    picture: Picture, person: Array, hair: Array, face: Array, eyes: npt.NDArray[Any]
) -> Array:
    """Return where a hat is, float32[h, w]: person above the brows, neither hair nor forehead.

    picture: uint8[h, w, 3]. person, hair: float32[h, w], 0..1. face: x, y, w, h. eyes: float[2, 2],
    their centres.
    """
    middle, along = eyes.mean(axis=0), eyes[1] - eyes[0]
    along = along / max(float(np.hypot(*along)), 1e-3) * (1 if along[0] > 0 else -1)
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]].astype(np.float32)
    long, width = float(max(face[2:])), float(face[2])
    right, down = x - middle[0], y - middle[1]
    up = (right * along[1] - down * along[0]) / long
    aside = np.abs(right * along[0] + down * along[1])
    lab = cv2.cvtColor(picture.astype(np.float32) / np.float32(255), cv2.COLOR_RGB2Lab)
    below = (up < -0.05) & (up > -0.3) & (aside < 0.28 * width)
    skin = np.median(lab[below], axis=0) if below.any() else np.full(3, np.inf)
    away = np.sqrt((((lab - skin) * (0.5, 1, 1)) ** 2).sum(axis=-1))
    forehead = (away < LIKE_SKIN) & (up < 0.5) & (aside < 0.6 * width)
    hat = (person > 0.5) & (hair < 0.5) & (up > BROWS) & (up < HIGH) & (aside < WIDE * long)
    found = cv2.morphologyEx((hat & ~forehead).astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2)))
    return largest_piece(found).astype(np.float32)
