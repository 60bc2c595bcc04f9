"""A guided filter: coefficients on a small grid, and from there to every pixel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import _native

Grid = NDArray[np.float32]


def guided_fit(
    prior: Grid, colours: Sequence[Grid], reach: float, weight: float
) -> tuple[list[Grid], Grid]:
    """Fit what each place of a mask becomes as a linear function of its colour.

    In its neighbourhood each of the two sides has a mean colour; where a pixel's colour lies
    between them says how much of it belongs to the first side. This is Bayesian matting (Chuang,
    Curless, Salesin and Szeliski, CVPR 2001) with one colour a side and the opacity as the only
    unknown.
    | prior: float32[n, m], 0..1, what is known of the opacity, and how certainly.
    colours: one to three planes, float32[n, m] each, 0..1.
    reach: size of the neighbourhood, a Gaussian's sigma in places; edges are mirrored.
    weight: how much a colour counts beside the prior where that is even, over the variance of a
    side's colours.
    Returns the slopes, float32[n, m] for each plane, and the drop, float32[n, m]: the opacity is
    prior - drop + the sum of slopes times colours. Where colours say next to nothing all are 0.
    Rows may lie apart in memory, the numbers of a row must be contiguous.
    Raises ShapeError for arrays of other shapes, TypeError for other dtypes.
    """
    height, width = prior.shape
    to = np.empty(((len(colours) + 1) * height, width), np.float32)
    _native.guided_fit(prior, colours, reach, weight, to)
    *slopes, drop = to.reshape(-1, height, width)
    return slopes, drop


def guided_upsample(
    offset: Grid, slopes: Sequence[Grid], image: NDArray[np.uint8], to: Grid
) -> None:
    """Write offset + the sum of slopes times colours, from 0 to 1, for every pixel of a picture.

    This is how a fast guided filter ends (He and Sun, 2015): the coefficients are enlarged
    bilinearly, as cv2.resize does, and only where a slope is not 0 the picture is read.

    offset: float32[n, m]; slopes: float32[k, l] each, one for the brightness 0..255 that ITU-R
    BT.601 has, or three for red, green and blue; image: uint8[h, w, 3], RGB; to: float32[h, w],
    the result. Rows may lie apart in memory, the numbers and pixels of a row must be contiguous.
    Raises ShapeError for arrays of other shapes, TypeError for other dtypes.
    """
    _native.guided_upsample(offset, slopes, image, to)
