"""transform_landmarks: MediaPipe's custom operator TransformLandmarks.

Source: mediapipe/util/tflite/operations/transform_landmarks.cc.
"""

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import case, op
from palmkit.engine.ops.rules import need_dtype, need_rank

_MATRIX = np.array([[[2, 0.5, 9, -3], [-0.25, 1.5, 9, 4], [0, 0, 1, 0], [0, 0, 0, 1]]], np.float32)


def _infer(landmarks: Type, matrix: Type, *, dimensions: int, scale: float, version: int) -> Type:
    need_dtype("transform_landmarks", landmarks, matrix, among=("float32",))
    need_rank("transform_landmarks", landmarks, 1)
    each = dimensions or landmarks.dims[-1]
    if each not in (2, 3) or landmarks.dims[-1] % each or matrix.elements != 16:
        raise ShapeError(f"transform_landmarks: cannot map {landmarks} by {matrix}")
    return Type(landmarks.dtype, landmarks.shape)


@op(
    _infer,
    case((1, 5, 2), _MATRIX),
    case((1, 5, 3), _MATRIX),
    case((1, 1, 1, 12), _MATRIX, dimensions=3, scale=0.5, version=1),
    case((1, 1, 1, 12), _MATRIX, dimensions=2, scale=2.0, version=1),
)
def transform_landmarks(
    landmarks: Array,
    matrix: Array,
    *,
    dimensions: int = 0,
    scale: float = 1.0,
    version: int = 2,
) -> Array:
    """x and y of each landmark through the first two rows of the matrix; z stays as it is.

    dimensions: numbers a landmark, 2 or 3; 0 means the last axis. scale: of the translation.
    """
    points = landmarks.reshape(-1, dimensions or landmarks.shape[-1])
    rows = matrix.reshape(4, 4)[:2]
    y = points.copy()
    y[:, :2] = points[:, :2] @ rows[:, :2].T + rows[:, 3] * np.float32(scale)
    return y.reshape(landmarks.shape)
