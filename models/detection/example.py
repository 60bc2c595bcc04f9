"""One training picture and the objects in it, as the bank takes it; without torch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Example(NamedTuple):
    """One picture: uint8[h, w, 3], float32[n, 4 + 2k] objects, float32[m, 4] ignored boxes.

    An object is a box (corners) and k points, in pixels, NaN where unknown. weight: how often it
    is drawn.
    """

    picture: NDArray[np.uint8]
    objects: NDArray[np.float32]
    ignored: NDArray[np.float32]
    weight: float
