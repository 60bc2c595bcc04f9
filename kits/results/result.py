"""Common base of results, and helpers for their texts and JSON."""

from __future__ import annotations

import json
import math
import os
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ImageError
from palmkit.kits.image import Image, clip_part

if TYPE_CHECKING:
    from palmkit.kits.camera_motion import Similarity
    from palmkit.kits.original import Original

AnyPicture = TypeVar("AnyPicture", bound="PictureResult")

# So many things are told of by `repr`.
TOLD = 3
# The longest side of what a notebook shows, in pixels.
SHOWN_SIDE = 800
# A margin of a crop may take away nearly half of the box on each side.
LEAST_MARGIN = -0.49


class Result(ABC):
    """A kit's result for a picture, or for a page of items."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line: nested dicts and lists of numbers and text.

        What was not asked for is left out.
        """

    def to_json(self, *, indent: int | None = None) -> str:
        """Return to_dict as JSON: one line, or indented by so many spaces."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    @abstractmethod
    def words(self) -> list[str]:
        """Return lines for people: a headline, equal for similar results, then a line a thing."""

    def __repr__(self) -> str:
        """Return one short line: what it is of, and the first things in it."""
        headline, *lines = self.words()
        left = len(lines) - TOLD
        told = "; ".join(lines[:TOLD] + ([f"{left} more"] if left > 0 else []))
        return f"<{type(self).__name__}{self._of()}: {headline}{told and ': '}{told}>"

    def _of(self) -> str:
        """Return what it is a result of, for repr; "": nothing to be said."""
        return ""


class Shown(ABC):
    """Something that notebooks show as a picture."""

    @abstractmethod
    def draw(self, image: Image | None = None) -> Image:
        """Return the picture with what was found drawn on it, a new uint8[h, w, 3].

        image: the upright picture, uint8[h, w, 3] RGB; None: the one that the result keeps.
        Raises ImageError if it keeps none, or the picture is of another size.
        """

    def _shown(self) -> Image:
        """Return what notebooks show, before it is made small."""
        return self.draw()

    _shown_side: ClassVar[int] = SHOWN_SIDE

    def _repr_png_(self) -> bytes | None:
        """Return a PNG for notebooks, drawn small; None, for which they show text, without one."""
        from palmkit.kits.image import png, resize

        try:
            image = self._shown()
        except ImageError:
            return None
        scale = min(self._shown_side / max(image.shape[:2]), 1)
        height, width = (max(round(side * scale), 1) for side in image.shape[:2])
        return png(resize(image, height, width))


class PictureResult(Result, Shown):
    """A kit's result for a picture."""

    # Name of the picture that the result is, such as a mask; "": it is none.
    picture_name: ClassVar[str] = ""

    width: int
    height: int
    # What a budget had no time for: "frame", where the last result of a video is moved along with
    # the camera, or "closer looks"; "": nothing.
    left_out: str

    def _said_left_out(self) -> dict[str, str]:
        """Return what the JSON says of it: nothing where nothing was left out."""
        return {"left_out": self.left_out} if self.left_out else {}

    def corners(self) -> NDArray[np.float32]:
        """Return the boxes of what moves by itself: float32[n, 4] of left, top, right, bottom."""
        return np.zeros((0, 4), np.float32)

    def moved(self: AnyPicture, motion: Similarity, image: Image) -> AnyPicture:
        """Return the result of a later frame that there was no time to look at.

        motion: of the camera since this one. image: the frame, uint8[h, w, 3], as large.
        Raises TypeError if it cannot be told from this one.
        """
        raise TypeError(f"{type(self).__name__} tells nothing of later frames")

    def leaving_out(self: AnyPicture, what: str) -> AnyPicture:
        """Return this result with what was left out of it."""
        made: AnyPicture = replace(cast(Any, self), left_out=what)
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what `draw` returns, in the format that the suffix names, whole or not at all.

        Raises ImageError as `draw` and palmkit.kits.image.write_image do.
        """
        from palmkit.kits.image import write_image

        write_image(path, self.draw())

    def drawn(self, image: Image) -> Image:
        """Do what `draw` does; the former name."""
        from palmkit.engine import deprecated

        deprecated.warn(f"{type(self).__name__}.drawn", "it is draw now")
        return self.draw(image)

    def as_picture(self) -> Image:
        """Return the picture called `picture_name`: uint8[h, w] or uint8[h, w, 3].

        Raises TypeError if the result is no picture.
        """
        raise TypeError(f"{type(self).__name__} is not a picture")

    def keeping(self: AnyPicture, original: Original) -> AnyPicture:
        """Return this result with what it needs to be drawn later, unless it has that already."""
        return self

    def _of(self) -> str:
        return f" of {self.width}x{self.height}"


def counted(count: int, thing: str) -> str:
    """Return how many things there are, for people: "no faces", "1 face"."""
    return f"{count or 'no'} {thing}{'' if count == 1 else 's'}"


def place(box: NDArray[np.float32]) -> str:
    """Return a box's place and size, for people."""
    x, y, width, height = box
    return f"at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"


def rounded(values: NDArray[Any], digits: int) -> Any:
    """Return nested lists, rounded in float64, so that 0.1 stays 0.1."""
    return np.round(values.astype(np.float64), digits).tolist()


def cut(image: Image, box: NDArray[np.float32], margin: float) -> Image:
    """Return a copy of what a box covers of a picture, and of a margin round it.

    image: uint8[h, w, 3]. box: x, y, w, h in pixels. margin: on each side, in parts of w and h.
    Raises ValueError for a margin that leaves nothing of the box, ImageError if no pixel of the
    picture is in it.
    """
    check_margin(margin)
    x, y, wide, tall = (float(value) for value in box)
    part = (x - margin * wide, y - margin * tall, wide * (1 + 2 * margin), tall * (1 + 2 * margin))
    try:
        left, top, right, bottom = clip_part(image, part)
    except ImageError:
        size = f"{image.shape[1]}x{image.shape[0]}"
        raise ImageError(f"crop: nothing of the box is in the picture of {size} pixels") from None
    return image[top:bottom, left:right].copy()


def check_margin(margin: float) -> None:
    """Raise ValueError for a margin of a crop that leaves nothing of the box."""
    if not LEAST_MARGIN <= margin < math.inf:
        raise ValueError(f"margin: expected a number, at least {LEAST_MARGIN}, got {margin!r}")
