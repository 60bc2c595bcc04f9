"""The mask of a person, or of hair, in a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import deprecated
from palmkit.engine.cached import cached
from palmkit.engine.forks import finished
from palmkit.kits.image import Image
from palmkit.kits.results.result import PictureResult

if TYPE_CHECKING:
    from palmkit.kits.portrait.compose import Backdrop, Background

# A pixel whose mask is above it belongs to what the mask is of.
INSIDE = 0.5


@dataclass(frozen=True, eq=False)
class Mask(PictureResult):
    """The mask of a person, or of hair, in a picture.

    width, height: of the upright picture, in pixels.
    mask: float32[h, w], 0..1: how likely each pixel belongs to it.
    image: the upright picture itself, uint8[h, w, 3]; it may be the array that was given.
    backdrop: the background that was asked for, or None.
    """

    picture_name: ClassVar[str] = "mask"

    width: int
    height: int
    mask: NDArray[np.float32]
    image: Image = field(repr=False)
    backdrop: Backdrop | None = field(default=None, repr=False)

    @cached
    def alpha(self) -> NDArray[np.float32]:
        """float32[h, w], 0..1: how much of each pixel it covers; worked out when first asked for.

        Unlike `mask` it is 0 and 1 wherever that is certain, and follows single strands of hair.
        """
        from palmkit.kits.portrait.refine import opacity

        return opacity(self.image, self.mask)

    @cached
    def coverage(self) -> float:
        """The fraction of the picture's pixels whose mask is above 1/2."""
        return float((self.mask > INSIDE).mean())

    @cached
    def picture(self) -> Image | None:
        """uint8[h, w, 3], it in front of the background asked for; None if none was.

        Like alpha it is worked out when first asked for.
        """
        return None if self.backdrop is None else self.composite(self.backdrop)

    @finished
    def composite(self, background: Background) -> Image:
        """Return what it covers in front of another background: uint8[h, w, 3].

        background: "blur", or a number: the blur's standard deviation in pixels; "#rrggbb" or a
        tuple of red, green, blue in 0..255; or a picture as read_image takes it, which is scaled
        to cover and cut at its middle.
        At its edge the colours are freed of the old background's.
        Raises ImageError if a picture cannot be read, ValueError for anything else.
        """
        from palmkit.kits.portrait.compose import Backdrop, composite

        return composite(self.image, self.alpha, Backdrop.of(background))

    @finished
    def cutout(self) -> Image:
        """Return what it covers alone: uint8[h, w, 4], red, green, blue and opacity."""
        from palmkit.kits.portrait.compose import cutout

        return cutout(self.image, self.alpha)

    @finished
    def gray(self) -> Image:
        """Return the mask as a picture: uint8[h, w], 255 where it is 1."""
        import cv2

        return cast(Image, cv2.convertScaleAbs(self.mask, alpha=255))

    @deprecated.path_argument("mask_path", "mask")
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line; "mask" is None: the command adds the file."""
        return {
            "width": self.width,
            "height": self.height,
            "mask": None,
            "coverage": round(self.coverage, 4),
        }

    def words(self) -> list[str]:
        """Return how much of the picture it covers."""
        return [f"{100 * self.coverage:.0f} % of the pixels"]

    def drawn(self, image: Image) -> Image:
        """Return the picture with the mask tinted."""
        from palmkit.kits import draw

        this: Any = self
        return draw.mask(image, this)

    def as_picture(self) -> Image:
        """Return the mask, as `gray` does."""
        return self.gray()
