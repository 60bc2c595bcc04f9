"""The last step of a guided filter: from coefficients on a small grid to every pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import _native

Grid = NDArray[np.float32]


def guided_upsample(
    offset: Grid, slopes: Sequence[Grid], image: NDArray[np.uint8], to: Grid
) -> None:
    """Write offset + the sum of slopes times colours, from 0 to 1, for every pixel of a picture.

    This is how a fast guided filter ends (He and Sun, 2015): the coefficients are enlarged
    bilinearly, as cv2.resize does, and only where a slope is not 0 the picture is read.

    offset: float32[n, m]; slopes: float32[k, l] each, one for the brightness 0..255 that ITU-R
    BT.601 has, or three for red, green and blue; image: uint8[h, w, 3], RGB; to: float32[h, w],
    what is written. Rows may lie apart in memory, numbers and pixels in a row may not.
    Raises ShapeError for arrays of other shapes, TypeError for other dtypes.
    """
    _native.guided_upsample(offset, slopes, image, to)
