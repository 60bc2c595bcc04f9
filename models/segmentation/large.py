"""Both kits on pictures as if these were several times as large as they are.

Development pictures are hardly larger than the networks' input, photos are many times as large. So
the network's mask is reduced to as many times fewer rows and columns, as it would be of so large a
picture, and so is the grid that opacity is worked out on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import cv2

from palmkit.kits import HairSegmenter, PortraitSegmenter
from palmkit.kits.image import Image, resize
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.kit import Segmenter
from palmkit.kits.quality import Quality
from palmkit.models.segmentation.teachers import Array, Picture


class _Large(Segmenter):
    """A segmenter whose network's masks are `times` times as coarse."""

    times: int = 1

    def _enlarge(
        self, crop: Image, coarse: refine.Mask, small: Image, to: refine.Mask | None = None
    ) -> refine.Mask:
        rows, columns = (max(round(side / self.times), 1) for side in coarse.shape)
        reduced = cv2.resize(coarse, (columns, rows), interpolation=cv2.INTER_AREA)
        small = resize(small, rows, columns)
        return super()._enlarge(crop, cast(refine.Mask, reduced), small, to)


class LargePortraits(_Large, PortraitSegmenter):
    """PortraitSegmenter on pictures as if they were `times` times as large."""


class LargeHair(_Large, HairSegmenter):
    """HairSegmenter on pictures as if they were `times` times as large."""


def maskers(task: str, model: Path, times: int) -> dict[str, Callable[[Picture], Array]]:
    """Return what makes masks, float32[h, w], 0..1, of pictures as if so many times as large.

    task: portrait, hair, or the best network of one. "enlarged" is the network's mask, bilinear;
    "mask" is Mask.mask; "opacity" is Mask.alpha, and "opacity, network's grid" the same worked out
    on no finer a grid than the network's mask.
    """
    plain, refined = (_kit(task, model, times, refined) for refined in (False, True))
    least, most = (max(side // times, 1) for side in refine.ALPHA_SIDES)

    def opacity(picture: Picture, finest: int) -> Array:
        return refine.opacity(picture, refined.segment(picture).mask, (least, finest))

    return {
        "enlarged": lambda picture: plain.segment(picture).mask,
        "mask": lambda picture: refined.segment(picture).mask,
        "opacity, network's grid": lambda picture: opacity(picture, least),
        "opacity": lambda picture: opacity(picture, most),
    }


def _kit(task: str, model: Path, times: int, refined: bool) -> _Large:
    quality: Quality = "best" if task.endswith("_best") else "fast"
    kind = LargeHair if task.startswith("hair") else LargePortraits
    kit = kind(model=model, quality=quality, refine=refined)
    kit.times = times
    return kit
