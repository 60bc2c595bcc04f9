"""Several looks of a network at one view: the mean of what it says in each."""

from __future__ import annotations

from typing import cast

import numpy as np

from palmkit.kits.image import Image
from palmkit.kits.portrait.network import SegmentationNetwork
from palmkit.kits.portrait.refine import Mask


def mean_of_scales(network: SegmentationNetwork, view: Image, whole: Mask, scale: float) -> Mask:
    """Return the mean of what it says of a view, of that at a scale, and of both mirrored.

    It errs in other places in each. whole: what it says of the view.
    """
    import cv2

    size, middle = (network.side, network.side), (network.side - 1) / 2 * (1 - scale)
    moved = np.array([[scale, 0, middle], [0, scale, middle]])
    whole = whole + network.infer_mirrored(view)
    seen = cast(Image, cv2.warpAffine(view, moved, size))
    words = network.infer(seen) + network.infer_mirrored(seen)
    # What both see, and what only the first one does.
    inside = np.ones_like(whole)
    words, inside = (
        cast(Mask, cv2.warpAffine(each, cv2.invertAffineTransform(moved), size))
        for each in (words, inside)
    )
    return np.asarray((whole + words) / (2 + 2 * inside), np.float32)


def mean_of_turns(network: SegmentationNetwork, view: Image, degrees: float) -> Mask:
    """Return the mean of what it says of a view without colours, and turned to and fro."""
    import cv2

    grey = cv2.cvtColor(cv2.cvtColor(view, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    found = network.infer(cast(Image, grey))
    looks = np.ones_like(found)
    middle, size = ((network.side - 1) / 2,) * 2, (network.side, network.side)
    for turn in (degrees, -degrees):
        there, back = (cv2.getRotationMatrix2D(middle, each, 1) for each in (turn, -turn))
        turned = network.infer(cast(Image, cv2.warpAffine(view, there, size)))
        found = found + cast(Mask, cv2.warpAffine(turned, back, size))
        # The corners are out of a turned look.
        inside = cv2.warpAffine(np.ones_like(turned), there, size)
        looks += cast(Mask, cv2.warpAffine(inside, back, size))
    return found / looks
