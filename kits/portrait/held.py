"""What people hold or carry: a network that looks round them, and which of its word counts."""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.kit import ModelSource
from palmkit.kits.options import Options
from palmkit.kits.portrait.network import MaskNetwork
from palmkit.kits.portrait.refine import Mask
from palmkit.kits.portrait.views import Box, Halves
from palmkit.kits.results import INSIDE

# The side of the network's mask.
HELD_SIDE = 64
# The room round people in which things are looked for: to both sides in their width, and at least
# in their height; above and below in their height.
ASIDE, ASIDE_HIGH, ABOVE = 0.35, 0.1, 0.08
# From this on the network takes a place for a thing. The least of a thing, and of what of it is no
# person, in the area of the people seen.
HELD, LEAST, LEAST_MORE = 0.5, 0.01, 0.004
# How far a thing may be from the people, in rows and columns of the mask.
NEAR = 2


class Holding(MaskNetwork):
    """The network that finds what is held."""

    def __init__(self, model: ModelSource | None, options: Options) -> None:
        """Open the model; None: the one that ships. options: the kit's."""
        super().__init__(model, options, "held_things", stride=4)

    def view(self, picture: Halves, box: Box) -> Image:
        """Return a part of a picture as the network sees it."""
        return picture.part(box, self.side)

    def things(self, view: Image) -> Mask:
        """Return how likely each place of a view is held: float32[n, n], 0..1."""
        return self._mask(view)


def box_with_room(inside: NDArray[np.bool_], whole: Box) -> Box | None:
    """Return the part of a picture with people and what they hold; None where there is nobody.

    inside: bool[n, m], where people are in the part `whole` of the picture.
    """
    import cv2

    x, y, wide, high = cv2.boundingRect(inside.view(np.uint8))
    if not wide:
        return None
    left, top, right, bottom = whole
    across, down = (right - left) / inside.shape[1], (bottom - top) / inside.shape[0]
    aside = max(ASIDE * wide * across, ASIDE_HIGH * high * down)
    above = ABOVE * high * down
    return (
        max(int(left + x * across - aside), left),
        max(int(top + y * down - above), top),
        min(int(np.ceil(left + (x + wide) * across + aside)), right),
        min(int(np.ceil(top + (y + high) * down + above)), bottom),
    )


def held_by(things: Mask, people: Mask) -> Mask:
    """Return how likely places are held: those of things that touch somebody.

    things, people: float32[n, n], 0..1, of the same view. Returns float32[n, n], 0 elsewhere.
    """
    import cv2

    inside = people > INSIDE
    least = LEAST * inside.sum()
    _, labels, stats, _ = cv2.connectedComponentsWithStats((things > HELD).view(np.uint8))
    parts, areas = np.asarray(labels, np.intp), np.asarray(stats)[:, cv2.CC_STAT_AREA]
    around = np.ones((2 * NEAR + 1, 2 * NEAR + 1), np.uint8)
    near = np.asarray(cv2.dilate(inside.view(np.uint8), around)) > 0
    kept = np.zeros(len(areas), np.bool_)
    kept[np.unique(parts[near])] = True
    kept &= areas >= max(least, 1)
    kept &= np.bincount(parts[~inside], minlength=len(areas)) >= max(LEAST_MORE * inside.sum(), 1)
    kept[0] = False
    if not kept.any():
        return np.zeros_like(things)
    # With their soft edges.
    reach = cv2.dilate(kept[parts].view(np.uint8), np.ones((5, 5), np.uint8))
    return cast(Mask, np.where(np.asarray(reach) > 0, things, np.float32(0)))
