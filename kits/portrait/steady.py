"""A mask from one frame of a video to the next."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.portrait.refine import Mask

# Where nothing moves a mask takes so long to become what the network says.
SETTLE_S = 0.2
# Mean difference of colours in 0..255, over a few pixels, that is noise; and that is motion.
STILL, MOVED = 3.0, 12.0
# Mean difference of two whole frames that makes them two scenes.
CUT = 48.0


@dataclass(frozen=True, eq=False)
class _Frame:
    mask: Mask
    small: NDArray[np.float32]
    view: NDArray[np.float64]
    time_s: float


class Steady:
    """Holds a mask still where the picture is, and lets it follow at once where it moves.

    Each pixel is smoothed exponentially; how much depends on how its colours changed.
    """

    def __init__(self) -> None:
        """Begin with the next frame."""
        self._last: _Frame | None = None

    def update(self, mask: Mask, small: Image, view: tuple[float, ...], time_s: float) -> Mask:
        """The mask to use.

        mask: float32[n, m], what the network says; small: uint8[n, m, 3], what it saw.
        view: x, y, width, height in the frame that these show.
        time_s: strictly increasing.
        Returns float32[n, m].
        """
        import cv2

        colours = cv2.blur(small, (5, 5)).astype(np.float32)
        here = np.array(view, np.float64)
        last, result = self._last, mask
        if last is not None:
            before_mask, before = last.mask, last.small
            if last.mask.shape != mask.shape or (last.view != here).any():
                before_mask, before = (
                    _moved(each, last.view, here, mask.shape) for each in (before_mask, before)
                )
            change = np.abs(colours - before).max(axis=2)
            if change.mean() < CUT:
                settled = np.float32(-math.expm1(-(time_s - last.time_s) / SETTLE_S))
                moved = np.clip((change - STILL) / (MOVED - STILL), 0, 1)
                result = before_mask + (settled + (1 - settled) * moved) * (mask - before_mask)
        self._last = _Frame(result, colours, here, time_s)
        return result


def _moved(
    values: NDArray[np.float32],
    view: NDArray[np.float64],
    here: NDArray[np.float64],
    shape: tuple[int, ...],
) -> NDArray[np.float32]:
    """What was seen in one view, as it lies in another; what was not seen is as at the border."""
    import cv2

    height, width = shape[:2]
    columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
    x = (here[0] + columns * here[2] / width - view[0]) * values.shape[1] / view[2] - 0.5
    y = (here[1] + rows * here[3] / height - view[1]) * values.shape[0] / view[3] - 0.5
    xs, ys = np.meshgrid(x.astype(np.float32), y.astype(np.float32))
    return np.asarray(
        cv2.remap(values, xs, ys, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE), np.float32
    )
