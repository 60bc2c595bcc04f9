"""The meaning of the 478 points of a face mesh.

The numbering is that of MediaPipe's face mesh (google-ai-edge/mediapipe, Apache-2.0): 468 points of
the skin, then five of each iris: its centre, then four on its edge. Left and right are the
subject's own: the right eye is on the left of a picture that is not mirrored. Loops name their
points once; they end where they began.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit import assets

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

FACE_OVAL = (
    *(10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377),
    *(152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109),
)
LIPS_OUTER = (
    *(61, 146, 91, 181, 84, 17, 314, 405, 321, 375),
    *(291, 409, 270, 269, 267, 0, 37, 39, 40, 185),
)
LIPS_INNER = (
    *(78, 95, 88, 178, 87, 14, 317, 402, 318, 324),
    *(308, 415, 310, 311, 312, 13, 82, 81, 80, 191),
)
# From the outer corner along the lower lid to the inner one, and back along the upper lid.
RIGHT_EYE = (33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246)
LEFT_EYE = (263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466)
# From the outer end along the upper edge to the inner end, and back along the lower edge.
RIGHT_BROW = (70, 63, 105, 66, 107, 55, 65, 52, 53, 46)
LEFT_BROW = (300, 293, 334, 296, 336, 285, 295, 282, 283, 276)
# Centre, then the edge.
RIGHT_IRIS = (468, 469, 470, 471, 472)
LEFT_IRIS = (473, 474, 475, 476, 477)
# Lines: down the ridge to the tip, and under the nose from the right wing to the left one.
NOSE_RIDGE = (168, 6, 197, 195, 5, 4)
NOSE_BASE = (129, 98, 97, 2, 326, 327, 358)

LOOPS = {
    "face_oval": FACE_OVAL,
    "lips_outer": LIPS_OUTER,
    "lips_inner": LIPS_INNER,
    "right_eye": RIGHT_EYE,
    "left_eye": LEFT_EYE,
    "right_brow": RIGHT_BROW,
    "left_brow": LEFT_BROW,
}

# Points of the 106-point scheme, each the mean of some of ours. 0 to 32, which run along the jaw,
# are spaced evenly on this line; the rest follow in order from 33.
_JAW_RIGHT = (127, 234, 93, 132, 58, 172, 136, 150, 149, 176, 148, 152)
_OF_106: tuple[tuple[int, ...], ...] = (
    *((70, 46), (63,), (105,), (66,), (107,)),  # 33..37 right brow, upper edge, outer end first
    *((336,), (296,), (334,), (293,), (300, 276)),  # 38..42 left brow, inner end first
    *((168,), (197,), (5,), (4,)),  # 43..46 ridge of the nose
    *((98,), (97,), (2,), (326,), (327,)),  # 47..51 base of the nose
    *((33,), (160,), (158,), (133,), (153,), (144,)),  # 52..57 right eye
    *((362,), (385,), (387,), (263,), (373,), (380,)),  # 58..63 left eye
    *((53,), (52,), (65,), (55,)),  # 64..67 right brow, lower edge
    *((285,), (295,), (282,), (283,)),  # 68..71 left brow, lower edge
    *((159,), (145,), (33, 133, 159, 145)),  # 72..74 right eye: upper, lower, middle
    *((386,), (374,), (263, 362, 386, 374)),  # 75..77 left eye
    *((122,), (351,), (198,), (420,), (129,), (358,)),  # 78..83 sides of the nose, downwards
    *((61,), (40,), (37,), (0,), (267,), (270,)),  # 84..89 lips, outer edge
    *((291,), (321,), (314,), (17,), (84,), (91,)),  # 90..95
    *((78,), (81,), (13,), (311,), (308,), (402,), (14,), (178,)),  # 96..103 lips, inner edge
    *((468,), (473,)),  # 104, 105 pupils
)


@lru_cache(maxsize=1)
def _asset() -> dict[str, NDArray[Any]]:
    with np.load(BytesIO(assets.read("face_mesh.npz"))) as file:
        arrays = {name: file[name] for name in file.files}
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def triangles() -> NDArray[np.uint16]:
    """Return the skin between the points, without eyes and mouth: uint16[852, 3].

    Seen from outside the corners run counter-clockwise.
    """
    return _asset()["triangles"]


def edges() -> NDArray[np.uint16]:
    """Return the sides of the triangles, each once: uint16[1322, 2]."""
    sides = np.concatenate([triangles()[:, [0, 1]], triangles()[:, [1, 2]], triangles()[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0)


def canonical_face() -> NDArray[np.float32]:
    """Return a face at rest, symmetric: float32[478, 3] of x, y, z in centimetres.

    x goes to the subject's left, y up and z forward, out of the face; 0 is between the eyes. It is
    the mean of the faces of frontal training pictures, so that a typical look into the camera has
    pitch 0; models/face_mesh/canonical.py computes it. The outer corners of its eyes are 9 cm
    apart, the average of adults.
    """
    return _asset()["canonical"]


@lru_cache(maxsize=1)
def weights_106() -> NDArray[np.float32]:
    """Return the weight of each of our points in each of the 106: float32[106, 478].

    Rows sum to 1.
    """
    weights = np.zeros((106, POINTS), np.float32)
    face = canonical_face()
    line = np.array(_JAW_RIGHT)
    lengths = np.hypot(*np.diff(face[line, :2], axis=0).T)
    along = np.concatenate([[0], np.cumsum(lengths)])
    for row in range(17):
        at = float(along[-1]) * row / 16
        before = min(int(np.searchsorted(along, at, "right")) - 1, len(lengths) - 1)
        part = (at - float(along[before])) / float(lengths[before])
        for point, share in ((line[before], 1 - part), (line[before + 1], part)):
            weights[row, point] = share
            weights[32 - row, MIRROR[point]] = share
    for row, points in enumerate(_OF_106, 33):
        weights[row, list(points)] = 1 / len(points)
    return weights


def points_106(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return MNNKit's 106 points from values[..., 478, k] or values[..., 478].

    0..32 jaw, 33..42 and 64..71 brows, 43..51 and 78..83 nose, 52..63 and 72..77 eyes, 84..103
    lips, 104 and 105 pupils; those on the left of the picture first. kits/face/README.md has a
    picture.
    """
    return _weighted(values, weights_106())


def weights_68() -> NDArray[np.float32]:
    """Return the weight of each of our points in each of the 68: float32[68, 478].

    None is negative and rows sum to 1. models/face_mesh/points_68.py fits them.
    """
    return _asset()["points_68"]


def points_68(values: NDArray[Any]) -> NDArray[np.float32]:
    """Return the 68 points of iBUG 300-W and dlib from values[..., 478, k] or values[..., 478].

    0..16 jaw, 17..26 brows, 27..35 nose, 36..47 eyes, 48..59 outer and 60..67 inner lips; those on
    the left of the picture first.
    """
    return _weighted(values, weights_68())


def _weighted(values: NDArray[Any], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    values = np.asarray(values, np.float32)
    if values.shape[-1] == POINTS:
        return np.asarray(values @ weights.T, np.float32)
    return np.asarray(np.einsum("pq,...qk->...pk", weights, values), np.float32)
