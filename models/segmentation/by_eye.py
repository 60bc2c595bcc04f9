"""What lists that were made by eye say of pictures, and how what they point at is cut out."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from palmkit.models.segmentation.crop import Flags, Picture

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_list(name: str) -> dict[str, Any]:
    """Return the list of this name, which lies beside this file."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text())


@lru_cache(maxsize=1)
def with_people() -> frozenset[str]:
    """Return the pictures of sets without people that show somebody, a list made by eye."""
    return frozenset(read_list("people")["people"])


def differing(picture: Picture, within: Flags, rounds: int) -> Flags:
    """Return what differs in colour from all that is outside, bool[h, w], the same each time.

    picture: uint8[h, w, 3]. within: bool[h, w], where it may be, with something outside. rounds:
    how often both are learnt anew (GrabCut, Rother, Kolmogorov and Blake, SIGGRAPH 2004).
    """
    parts = np.where(within, cv2.GC_PR_FGD, cv2.GC_BGD).astype(np.uint8)
    behind, before = np.zeros((1, 65)), np.zeros((1, 65))
    # It starts from random clusters.
    cv2.setRNGSeed(0)
    cv2.grabCut(picture, parts, (0, 0, 0, 0), behind, before, rounds, cv2.GC_INIT_WITH_MASK)
    return np.asarray(parts == cv2.GC_PR_FGD)


def largest_piece(found: npt.NDArray[Any]) -> Flags:
    """Return the largest connected piece of what is found, 8-bit[h, w]; nothing of nothing."""
    count, pieces, sizes, _ = cv2.connectedComponentsWithStats(found)
    largest = 1 + int(sizes[1:, cv2.CC_STAT_AREA].argmax()) if count > 1 else -1
    return np.asarray(pieces == largest)
