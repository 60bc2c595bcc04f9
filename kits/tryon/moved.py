"""Hair in frames that there is no time to look for it in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.camera_motion import Similarity, fitted
from palmkit.kits.portrait.views import square_round
from palmkit.kits.results import Faces
from palmkit.kits.tryon.colour import Floats


class MovedHair:
    """Remembers where hair was found last, and moves it along with each head."""

    def __init__(self) -> None:
        """Start before the first frame."""
        self._last: tuple[Floats, Faces] | None = None

    def looked(self, hair: Floats, heads: Faces) -> None:
        """Take what was found: float32[h, w], with the faces whose boxes it was looked for by."""
        self._last = (hair, heads)

    def along(self, heads: Faces) -> Floats | None:
        """Return the hair of later faces: float32[h, w], 0..1.

        None if it is not known: the faces are others, or of a frame of another size.
        """
        if self._last is None:
            return None
        hair, before = self._last
        assert heads.ids is not None and before.ids is not None
        same_size = hair.shape == (heads.height, heads.width)
        if not same_size or not np.isin(heads.ids, before.ids).all():
            return None
        moved = np.zeros_like(hair)
        for row, id in enumerate(heads.ids.tolist()):
            [other] = np.flatnonzero(before.ids == id).tolist()
            motion = _motion(before, other, heads, row)
            _add_moved(moved, hair, before.boxes[other], motion)
        return moved


def _motion(before: Faces, other: int, after: Faces, row: int) -> Similarity:
    """Return how a face's mesh has moved between two frames."""
    assert before.mesh is not None and after.mesh is not None
    source, target = (
        np.ascontiguousarray(points[:, :2], np.float32).view(np.complex64).ravel()
        for points in (before.mesh[other], after.mesh[row])
    )
    return fitted(source, target)[0]


def _add_moved(to: Floats, hair: Floats, box: NDArray[np.float32], motion: Similarity) -> None:
    """Raise `to` to the hair that the network saw round a face, moved."""
    import cv2

    height, width = hair.shape
    x, y, side, _ = square_round(box, width, height)
    corners = motion.boxes(np.array([x, y, x + side, y + side]))
    left, top = (max(int(at), 0) for at in np.floor(corners[:2]))
    right, bottom = (
        min(int(at), end) for at, end in zip(np.ceil(corners[2:]), (width, height), strict=True)
    )
    if left >= right or top >= bottom:
        return
    matrix = Similarity(motion.turn, motion.shift - complex(left, top)).matrix
    size = (right - left, bottom - top)
    # What comes into the frame is as what was at its edge.
    found = cv2.warpAffine(hair, matrix, size, borderMode=cv2.BORDER_REPLICATE)
    part = to[top:bottom, left:right]
    np.maximum(part, found, out=part)
