"""Frames of a video on the device of a model: sent once, seen by it in parts, and judged there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from palmkit.engine.backends import DeviceArray

Method: TypeAlias = Literal["area", "linear"]
# Left, top, right, bottom, in whole pixels.
Box: TypeAlias = tuple[int, int, int, int]


class Resizing(NamedTuple):
    """A step of making a picture of bytes larger or smaller, as cv2.resize does it.

    width, height: of the picture that is made. method: "area", the mean of what a pixel covers, or
    "linear", what lies between the nearest four.
    """

    width: int
    height: int
    method: Method


class Frames(Protocol):
    """One frame at a time in the memory of a device, for one thread at a time.

    All but `send` raise RuntimeError without a frame, and ValueError for a box that is not inside
    of it. Each raises DeviceLostError where the device is lost: then begin with `send` once more.
    """

    @property
    def name(self) -> str:
        """The device."""
        ...

    @property
    def is_software(self) -> bool:
        """Whether it is the CPU in the end."""
        ...

    def send(self, image: NDArray[np.uint8]) -> None:
        """Take the next frame, uint8[h, w, 3]; it is read until the next call of another returns.

        Raises TypeError or ShapeError for another array, UnsupportedError for a frame that is too
        large for the device.
        """
        ...

    def see(self, box: Box, steps: Sequence[Resizing], rows: slice, columns: slice) -> DeviceArray:
        """Make a part of the frame the input of a network: float32[1, height, width, 3], 0..255.

        steps: what makes of the box a picture as large as `rows` and `columns`, where in the input
        it goes; the rest is 0. All but the last halve one of the lengths or both, by areas. Numbers
        are those of cv2.resize, but for a rare one that is off by one where the last step is by
        areas.
        The array is valid until the next call. Raises UnsupportedError for other steps.
        """
        ...

    def seen(self) -> NDArray[np.uint8]:
        """The input that was made last, uint8[height, width, 3].

        Raises RuntimeError if none was made of this frame.
        """
        ...

    def upsample(
        self, offset: NDArray[np.float32], slopes: NDArray[np.float32], box: Box
    ) -> NDArray[np.uint8]:
        """Do as palmkit.engine.guided_upsample for a part of the frame, by its brightness.

        offset: float32[n, m], slopes: float32[k, l], of no more numbers each than the input has
        pixels, for the part. Returns uint8[h, w], the result times 255, rounded.
        """
        ...
