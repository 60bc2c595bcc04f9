"""MediaPipe's attention mesh as a function from a crop to 478 points.

The network gives a mesh of 468 points and, from closer looks, the lips, both eyes with their
brows, and both irises. MediaPipe's graph (tensors_to_face_landmarks_with_attention, Apache-2.0)
puts these in the mesh's places by the index tables below; refined points keep the mesh's z, and
an iris gets the mean z of its eye's contour.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from palmkit.kits.face.topology import POINTS
from palmkit.models.face_mesh.indexes import (
    EYE_CONTOUR,
    LEFT_EYE,
    LEFT_IRIS,
    LIPS,
    RIGHT_EYE,
    RIGHT_IRIS,
)

Array = npt.NDArray[np.float32]
Picture = npt.NDArray[np.uint8]

SIZE = 192


class Mesh(NamedTuple):
    """The teacher's mesh.

    points: float32[478, 3] in 0..1 of the crop, z in the same unit; presence: 0..1.
    """

    points: Array
    presence: float


def assemble(outputs: Mapping[str, Array]) -> Mesh:
    """Return the network's outputs as one mesh."""
    points = np.zeros((POINTS, 3), np.float32)
    points[:468] = outputs["output_mesh_identity"].reshape(468, 3)
    points[list(LIPS), :2] = outputs["output_lips"].reshape(-1, 2)
    points[list(RIGHT_EYE), :2] = outputs["output_left_eye"].reshape(-1, 2)
    points[list(LEFT_EYE), :2] = outputs["output_right_eye"].reshape(-1, 2)
    points[list(RIGHT_IRIS), :2] = outputs["output_left_iris"].reshape(-1, 2)
    points[list(LEFT_IRIS), :2] = outputs["output_right_iris"].reshape(-1, 2)
    points[list(RIGHT_IRIS), 2] = points[list(RIGHT_EYE[:EYE_CONTOUR]), 2].mean()
    points[list(LEFT_IRIS), 2] = points[list(LEFT_EYE[:EYE_CONTOUR]), 2].mean()
    flag = float(outputs["conv_faceflag"].reshape(()))
    return Mesh(points / np.float32(SIZE), float(1 / (1 + np.exp(-flag))))


class Teacher:
    """The published network run by our engine."""

    def __init__(self, path: Path) -> None:
        """Open face_landmark_with_attention.tflite."""
        from palmkit.engine import load

        self.model = load(path)

    def __call__(self, picture: Picture) -> Mesh:
        """Map uint8[192, 192, 3] to a mesh."""
        tensor = np.asarray(picture, np.float32)[None] / np.float32(255)
        return assemble(self.model.run({"input_1": tensor}))
