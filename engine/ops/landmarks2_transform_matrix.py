"""landmarks2_transform_matrix: MediaPipe's custom operator Landmarks2TransformMatrix.

Source: mediapipe/util/tflite/operations/landmarks_to_transform_matrix.cc.
"""

from typing import Any

import numpy as np

from palmkit.engine.errors import ShapeError
from palmkit.engine.ir import Array, Type
from palmkit.engine.ops import Case, case, op
from palmkit.engine.ops.rules import need_dtype

_LANDMARKS = np.random.default_rng(8).uniform(20, 170, (1, 12, 3)).astype(np.float32)
_SECOND: dict[str, Any] = {
    "left_rotation_idx": 3,
    "right_rotation_idx": 7,
    "subset_idxs": (3, 5, 7, 8, 1),
    "output_height": 16,
    "output_width": 12,
    "scale_x": 1.5,
    "scale_y": 1.25,
}


def _cases() -> tuple[Case, ...]:
    first: dict[str, Any] = {**_SECOND, "input_hw": (48, 40), "landmarks_range": 192, "version": 1}
    return (
        case(_LANDMARKS, **_SECOND),
        case(_LANDMARKS, **_SECOND, target_rotation_radians=0.4),
        case(_LANDMARKS.reshape(1, 1, 1, 36), **first),
    )


def _infer(
    landmarks: Type,
    *,
    left_rotation_idx: int,
    right_rotation_idx: int,
    subset_idxs: tuple[int, ...],
    output_height: int,
    output_width: int,
    scale_x: float,
    scale_y: float,
    target_rotation_radians: float,
    input_hw: tuple[int, ...],
    landmarks_range: int,
    version: int,
) -> Type:
    need_dtype("landmarks2_transform_matrix", landmarks, among=("float32",))
    named = (left_rotation_idx, right_rotation_idx, *subset_idxs)
    if landmarks.elements % 3 or not 0 <= min(named) <= max(named) < landmarks.elements // 3:
        raise ShapeError(f"landmarks2_transform_matrix: {landmarks} has not all of {named}")
    if min(output_height, output_width) < 1 or min(scale_x, scale_y) <= 0 or not subset_idxs:
        raise ValueError("output size, scale or subset is out of range")
    if version == 1 and (len(input_hw) != 2 or min(*input_hw, landmarks_range) < 1):
        raise ValueError("input_hw or landmarks_range is out of range")
    return Type("float32", (1, 4, 4))


@op(_infer, *_cases())
def landmarks2_transform_matrix(
    landmarks: Array,
    *,
    left_rotation_idx: int,
    right_rotation_idx: int,
    subset_idxs: tuple[int, ...],
    output_height: int,
    output_width: int,
    scale_x: float,
    scale_y: float,
    target_rotation_radians: float = 0.0,
    input_hw: tuple[int, ...] = (),
    landmarks_range: int = 0,
    version: int = 2,
) -> Array:
    """The affine map, [1, 4, 4], from a crop's pixels to their positions in the source.

    landmarks: x, y, z in turn. The crop is output_height x output_width pixels: the smallest box
    round the landmarks subset_idxs, scaled, and rotated so that the line from the left to the right
    landmark lies at target_rotation_radians. Version 2 maps to the landmarks' own unit.

    Version 1 takes the first of the axes' angles (no target), corners as pixel centres, and
    landmarks that range from 0 to landmarks_range over a source of input_hw pixels.
    """
    points = landmarks.reshape(-1, 3)[:, :2].astype(np.float64)
    left, right = points[left_rotation_idx], points[right_rotation_idx]
    across, down = right - left
    with np.errstate(divide="ignore", invalid="ignore"):
        angle = np.arctan2(down, across) if version == 2 else np.arctan(down / across)
    turn = target_rotation_radians - angle
    turned = points[list(subset_idxs)] @ _rotation(turn).T
    least, most = turned.min(0), turned.max(0)
    size = (most - least) * (scale_x, scale_y)
    back = _rotation(-turn)
    centre = back @ ((least + most) / 2)
    output = np.array([output_width, output_height], np.float64)
    if version == 2:
        linear = back * (size / output)
        offset = centre - linear @ (output / 2)
    else:
        source = (np.array(input_hw[::-1], np.float64) - 1) / 2
        linear = source[:, None] * back * (size / landmarks_range)
        offset = source * (centre / landmarks_range * 2) - linear.sum(1)
        linear = linear * (2 / (output - 1))
    matrix = np.eye(4, dtype=np.float32)
    matrix[:2, :2], matrix[:2, 3] = linear, offset
    if version == 1:
        matrix[2] = (0, 0, 1, 0)
    return matrix[None]


def _rotation(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
