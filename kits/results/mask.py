"""The mask of a person, or of hair, in a picture."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import deprecated
from palmkit.engine.cached import cached
from palmkit.engine.forks import finished
from palmkit.kits.image import Image
from palmkit.kits.options import one_of
from palmkit.kits.results.result import PictureResult, cut

if TYPE_CHECKING:
    import os

    from palmkit.kits.camera_motion import Similarity
    from palmkit.kits.draw import Colour
    from palmkit.kits.portrait.compose import Backdrop, Background
    from palmkit.kits.results.detections import Detections

Subject: TypeAlias = Literal["person", "hair"]
# What may be written of a mask.
View: TypeAlias = Literal["mask", "cutout", "picture", "drawn"]
# A pixel whose mask is above it belongs to what the mask is of.
INSIDE = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Mask(PictureResult):
    """The mask of a person, or of hair, in a picture.

    width, height: of the upright picture, in pixels.
    mask: float32[h, w], 0..1: how likely each pixel belongs to it.
    image: the upright picture itself, uint8[h, w, 3]; it may be the array that was given. It lives
    as long as this result, in videos, too.
    backdrop: the background that was asked for, or None.
    subject: "person" or "hair", what it is of.
    left_out: what a budget had no time for, see Kit: "frame", or "" for nothing.
    """

    picture_name: ClassVar[str] = "mask"

    width: int
    height: int
    mask: NDArray[np.float32]
    image: Image
    backdrop: Backdrop | None = None
    subject: Subject = "person"
    left_out: str = ""

    @cached
    def alpha(self) -> NDArray[np.float32]:
        """float32[h, w], 0..1: how much of each pixel it covers; worked out when first asked for.

        Unlike `mask` it is 0 and 1 wherever that is certain, and follows single strands of hair.
        """
        from palmkit.kits.portrait.refine import opacity

        return opacity(self.image, self.mask)

    @cached
    def box(self) -> NDArray[np.float32]:
        """float32[4] of x, y, w, h round the pixels whose mask is above 1/2; all 0 without any."""
        import cv2

        found = cv2.boundingRect((self.mask > INSIDE).view(np.uint8))
        return np.array(found if found[2] else (0, 0, 0, 0), np.float32)

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

    def crop(self, margin: float = 0.0) -> Image:
        """Return a copy of the part of the picture that `box` is round: uint8[h, w, 3].

        margin: what is added on each side, in parts of the box's width and height; where the
        picture ends, the crop ends.
        Raises ImageError if nothing is in the mask, ValueError for a margin below -0.49.
        """
        return cut(self.image, self.box, margin)

    @deprecated.path_argument("mask_path", "mask")
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line, which adds the file that the mask is written to."""
        covers = {"coverage": round(self.coverage, 4)}
        return {"width": self.width, "height": self.height, **covers, **self._said_left_out()}

    def moved(self, motion: Similarity, image: Image) -> Mask:
        """Return the mask moved along; what comes into the frame is as what was at its edge."""
        import cv2

        size = (self.width, self.height)
        mask = cv2.warpAffine(self.mask, motion.matrix, size, borderMode=cv2.BORDER_REPLICATE)
        moved = np.asarray(mask, np.float32)
        return replace(self, mask=moved, image=image, left_out="frame")

    def words(self) -> list[str]:
        """Return how much of the picture it covers."""
        return [f"{100 * self.coverage:.0f} % of the pixels"]

    def draw(
        self, image: Image | None = None, *, colour: Colour | None = None, outline: bool = True
    ) -> Image:
        """Return the picture with the mask tinted, a new uint8[h, w, 3].

        image: another picture of this size, uint8[h, w, 3] RGB; None: the mask's own.
        colour: red, green, blue of the tint, 0..255. outline: of the mask, too.
        Raises ImageError if the picture is of another size.
        """
        from palmkit.kits import draw

        this: Any = self
        on = self.image if image is None else image
        return draw.mask(on, this, colour=colour or draw.ACCENT, outline=outline)

    def save(self, path: str | os.PathLike[str], view: View | None = None) -> None:
        """Write it in the format that the suffix names, whole or not at all.

        view: "mask": what `gray` returns; "cutout": that of `cutout`, with transparency, which PNG,
        WebP and TIFF can hold; "picture": in front of the background asked for; "drawn": what
        `draw` returns. None: the picture, if a background was asked for, else the mask.
        Raises ImageError if it cannot be written, ValueError for another view, or for the picture
        without a background.
        """
        from palmkit.kits.image import write_image

        if view is None:
            view = "mask" if self.backdrop is None else "picture"
        one_of("view", view, get_args(View))
        if view == "picture":
            if self.picture is None:
                raise ValueError("view: 'picture' needs a background, none was asked for")
            return write_image(path, self.picture)
        made = {"mask": self.gray, "cutout": self.cutout, "drawn": self.draw}
        return write_image(path, made[view]())

    def as_picture(self) -> Image:
        """Return the mask, as `gray` does."""
        return self.gray()

    def to_supervision(self) -> Detections:
        """Return it as supervision.Detections: one, with its mask, or none if nothing is in it.

        The mask, bool[1, h, w], is where this one is above 1/2, xyxy the box round it; class_id is
        0, "class_name" in data the subject. A mask has no score: confidence is None.
        Raises ImportError without the package supervision.
        """
        from palmkit.kits.results import detections

        count = int(self.box[2] > 0)
        return detections.detections(
            self.box[None][:count],
            None,
            class_id=np.zeros(count, np.int64),
            class_name=[self.subject] * count,
            mask=(self.mask > INSIDE)[None][:count],
        )

    def _shown(self) -> Image:
        return self.draw() if self.picture is None else self.picture

    def _of(self) -> str:
        return f" of {self.subject} in {self.width}x{self.height}"
