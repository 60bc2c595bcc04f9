"""Animals that are cut out and set before people, so that what somebody holds is not the person."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import cv2
import numpy as np

from palmkit.models.segmentation.crop import Array, Picture

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIST = Path(__file__).with_name("animals.toml")
ROUNDS = 8
# Gaps in an animal, of which none is larger than this share of it, are fur.
GAP = 0.02


@lru_cache(maxsize=1)
def animals() -> Mapping[str, Sequence[float]]:
    """Return the list, which was made by eye: of each file the box of one animal.

    Boxes are x, y, width and height in shares of the picture's longer side.
    """
    boxes: dict[str, list[float]] = tomllib.loads(LIST.read_text())["boxes"]
    return boxes


def animal_mask(picture: Picture, box: Sequence[float]) -> Array:
    """Return the opacity of the animal in a box, float32[h, w], 0..1, with a soft edge.

    picture: uint8[h, w, 3], RGB. box: as in `animals`. What differs in colour from all that is
    outside of the box (GrabCut, Rother, Kolmogorov and Blake, SIGGRAPH 2004); its largest piece.
    """
    height, width = picture.shape[:2]
    left, top, right, bottom = (
        round(max(height, width) * edge)
        for edge in (box[0], box[1], box[0] + box[2], box[1] + box[3])
    )
    # A border is needed outside of which nothing of it is.
    left, top = max(left, 1), max(top, 1)
    right, bottom = min(right, width - 1), min(bottom, height - 1)
    parts = np.full((height, width), cv2.GC_BGD, np.uint8)
    parts[top:bottom, left:right] = cv2.GC_PR_FGD
    cv2.setRNGSeed(0)
    colours = np.zeros((1, 65)), np.zeros((1, 65))
    cv2.grabCut(picture, parts, (0, 0, 0, 0), *colours, ROUNDS, cv2.GC_INIT_WITH_MASK)
    found = np.isin(parts, (cv2.GC_FGD, cv2.GC_PR_FGD)).astype(np.uint8)
    opened = cv2.morphologyEx(found, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, pieces, sizes, _ = cv2.connectedComponentsWithStats(opened)
    largest = 1 + int(sizes[1:, cv2.CC_STAT_AREA].argmax()) if count > 1 else -1
    animal = (pieces == largest).astype(np.uint8)
    _, gaps, sizes, _ = cv2.connectedComponentsWithStats(1 - animal)
    small = sizes[:, cv2.CC_STAT_AREA] < GAP * animal.sum()
    animal[small[gaps] & (animal == 0)] = 1
    return np.asarray(cv2.GaussianBlur(animal.astype(np.float32), (0, 0), 1.0), np.float32)
