"""Animals that are cut out and set before people, so that what somebody holds is not the person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import cv2
import numpy as np

from palmkit.models.segmentation.by_eye import differing, largest_piece, read_list
from palmkit.models.segmentation.crop import Array, Picture

ROUNDS = 8
# Gaps in an animal, of which none is larger than this share of it, are fur.
GAP = 0.02


@lru_cache(maxsize=1)
def animals() -> Mapping[str, Sequence[float]]:
    """Return the list, which was made by eye: of each file the box of one animal.

    Boxes are x, y, width and height in shares of the picture's longer side.
    """
    boxes: dict[str, list[float]] = read_list("animals")["boxes"]
    return boxes


def animal_mask(picture: Picture, box: Sequence[float]) -> Array:
    """Return the opacity of the animal in a box, float32[h, w], 0..1, with a soft edge.

    picture: uint8[h, w, 3], RGB. box: as in `animals`. What differs in colour from all that is
    outside of the box; its largest piece.
    """
    height, width = picture.shape[:2]
    left, top, right, bottom = (
        round(max(height, width) * edge)
        for edge in (box[0], box[1], box[0] + box[2], box[1] + box[3])
    )
    # A border is needed outside of which nothing of it is.
    left, top = max(left, 1), max(top, 1)
    right, bottom = min(right, width - 1), min(bottom, height - 1)
    within = np.zeros((height, width), np.bool_)
    within[top:bottom, left:right] = True
    found = differing(picture, within, ROUNDS).astype(np.uint8)
    opened = cv2.morphologyEx(found, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    animal = largest_piece(opened).astype(np.uint8)
    _, gaps, sizes, _ = cv2.connectedComponentsWithStats(1 - animal)
    small = sizes[:, cv2.CC_STAT_AREA] < GAP * animal.sum()
    animal[small[gaps] & (animal == 0)] = 1
    return np.asarray(cv2.GaussianBlur(animal.astype(np.float32), (0, 0), 1.0), np.float32)
