"""Which point of the 478-point mesh is what: MediaPipe's order, and views for other orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

POINTS = 478
MIDLINE = (
    *(0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19),
    *(94, 151, 152, 164, 168, 175, 195, 197, 199, 200),
)
FIRST_LEFT, FIRST_IRIS = 248, 468
MIRRORED_IRISES = (473, 476, 475, 474, 477, 468, 471, 470, 469, 472)


def _mirror() -> NDArray[np.intp]:
    """Points from 248 on are the subject's left half, in the order of those of the right half."""
    order = np.arange(POINTS)
    right = [index for index in range(FIRST_LEFT) if index not in MIDLINE]
    left = range(FIRST_LEFT, FIRST_IRIS)
    order[right], order[left] = left, right
    order[FIRST_IRIS:] = MIRRORED_IRISES
    return order


MIRROR = _mirror()
"""intp[478]: the point that takes each one's place when the picture is mirrored."""

# The 68 points of iBUG 300-W (also dlib's), in its order, each as the mean of points of the mesh.
# They go from the picture's left: jaw, right and left brow, bridge and base of the nose, right
# and left eye, outer and inner lips (right and left are the subject's). From the brows on, the
# choice among neighbours is the one nearest to the automatic points of a third of the training
# faces of the set aaf; the jaw, which that set lacks, is spaced by eye along the face's oval.
POINTS_68: tuple[tuple[int, ...], ...] = (
    *((127,), (234,), (93,), (132, 58), (58, 172), (136,), (150,), (176,)),
    (152,),
    *((400,), (379,), (365,), (397, 288), (288, 361), (323,), (454,), (356,)),
    *((70,), (63, 105), (105, 66), (66,), (107,)),
    *((336,), (296,), (296, 334), (334, 293), (300,)),
    *((168, 6), (197,), (5, 195), (4,)),
    *((75, 240), (97,), (2,), (326,), (305, 460)),
    *((33,), (160,), (158,), (133, 173), (153,), (144,)),
    *((362, 398), (385,), (387,), (263,), (373,), (380,)),
    *((61,), (39, 40), (37,), (0,), (267,), (269, 270), (291,)),
    *((321,), (314, 405), (17,), (84, 181), (91,)),
    *((78,), (81,), (13,), (311,), (308,), (402,), (14,), (178,)),
)


def points_68(mesh: NDArray[Any]) -> NDArray[np.float32]:
    """float[..., 478, d] as float32[..., 68, d] in the order of iBUG 300-W."""
    return np.stack(
        [mesh[..., list(group), :].mean(axis=-2) for group in POINTS_68], axis=-2
    ).astype(np.float32)
