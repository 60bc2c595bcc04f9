"""A mask from one frame of a video to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.portrait.refine import Mask, half

Values = TypeVar("Values", bound=NDArray[Any])

# Time constant with which a mask follows the network where nothing moves.
SETTLE_S = 0.2
# Mean difference of colours in 0..255, over a few pixels, that is noise; and that is motion.
STILL, MOVED = 3.0, 9.0
# Mean difference of two whole frames that makes them two scenes.
CUT = 48.0


@dataclass(frozen=True, eq=False)
class _Frame:
    mask: Mask
    colours: Image
    view: tuple[float, ...]
    time_s: float


class Steady:
    """Holds a mask still where the picture is, and lets it follow at once where it moves.

    Each pixel is smoothed exponentially; how much depends on how its colours changed.
    """

    def __init__(self) -> None:
        """Start with the next frame."""
        self._last: _Frame | None = None

    def update(self, mask: Mask, small: Image, view: tuple[float, ...], time_s: float) -> Mask:
        """Return the mask to use.

        mask: float32[n, m], the network's result; small: uint8[n, m, 3], its input. view: x, y,
        width, height in the frame that these show. time_s: strictly increasing.
        Returns float32[n, m].
        """
        import cv2

        # A mean over six by six pixels, of every other place.
        colours = cast(Image, cv2.blur(half(small), (3, 3)))
        last, result = self._last, mask
        if last is not None:
            before, seen = last.mask, last.colours
            if before.shape != mask.shape or last.view != view:
                before = _moved(before, last.view, view, mask.shape)
                seen = _moved(seen, last.view, view, colours.shape)
            red, green, blue = cv2.split(cv2.absdiff(colours, seen))
            change = cv2.max(cv2.max(red, green), blue)
            if cv2.mean(change)[0] < CUT:
                weight = cv2.LUT(change, _weights(time_s - last.time_s))
                weight = cv2.resize(weight, mask.shape[::-1])
                result = mask - before
                result *= weight
                result += before
        self._last = _Frame(result, colours, view, time_s)
        return result


def _weights(step_s: float) -> Mask:
    """Return the weight of the new mask for each change of colour 0..255."""
    settled = -math.expm1(-step_s / SETTLE_S)
    moved = np.clip((np.arange(256) - STILL) / (MOVED - STILL), 0, 1)
    return np.asarray(settled + (1 - settled) * moved, np.float32)


def _moved(
    values: Values, view: tuple[float, ...], here: tuple[float, ...], shape: tuple[int, ...]
) -> Values:
    """Return values of one view in another; unseen places are as at the border."""
    import cv2

    height, width = shape[:2]
    columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
    x = (here[0] + columns * here[2] / width - view[0]) * values.shape[1] / view[2] - 0.5
    y = (here[1] + rows * here[3] / height - view[1]) * values.shape[0] / view[3] - 0.5
    xs = np.tile(x.astype(np.float32), (height, 1))
    ys = np.tile(y.astype(np.float32)[:, None], (1, width))
    moved = cv2.remap(values, xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return cast(Values, moved)
