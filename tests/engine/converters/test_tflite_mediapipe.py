"""MediaPipe's custom operators: converted, and against literal loops over their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.ops.landmarks2_transform_matrix import landmarks2_transform_matrix
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    ModelFile,
    assert_agrees,
    flexbuffers,
    floats,
    litert,
    run,
)

SAME, VALID = 1, 2


def pool_params(padding: int, strides: tuple[int, int], kernel: tuple[int, int]) -> bytes:
    """TfLitePoolParams as it lay in memory: width before height."""
    fields = [padding, strides[1], strides[0], kernel[1], kernel[0], 0, 0, 0]
    return np.array(fields, "<i4").tobytes()


def custom(op: str, inputs: dict[str, Array], outputs: int, options: bytes, version: int) -> bytes:
    file = ModelFile()
    for name, value in inputs.items():
        file.input(name, value.shape)
    names = [file.tensor(f"y{i}", (1, 1, 1, 1)) for i in range(outputs)]
    file.operator(op, list(inputs), names, custom=options, version=version)
    return file.pack(names)


def converted(
    op: str, inputs: dict[str, Array], outputs: int, options: bytes, version: int = 1
) -> dict[str, Array]:
    graph = convert(custom(op, inputs, outputs, options, version))
    got = run(graph, inputs)
    for name, value in run(optimise(graph), inputs).items():
        np.testing.assert_array_equal(value, got[name])
    return got


def same_padding(size: int, out: int, stride: int, kernel: int) -> int:
    return max(0, (out - 1) * stride + kernel - size) // 2


def max_pool_loops(
    x: Array, kernel: tuple[int, int], strides: tuple[int, int], padding: int
) -> tuple[Array, Array]:
    n, height, width, depth = x.shape
    if padding == SAME:
        out_h, out_w = -(-height // strides[0]), -(-width // strides[1])
    else:
        out_h, out_w = (height - kernel[0]) // strides[0] + 1, (width - kernel[1]) // strides[1] + 1
    pad_h = same_padding(height, out_h, strides[0], kernel[0])
    pad_w = same_padding(width, out_w, strides[1], kernel[1])
    y, place = np.zeros((2, n, out_h, out_w, depth), np.float32)
    for b, row, column, channel in np.ndindex(*y.shape):
        best, where = -math.inf, 0
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                at, along = row * strides[0] - pad_h + i, column * strides[1] - pad_w + j
                if 0 <= at < height and 0 <= along < width and x[b, at, along, channel] > best:
                    best, where = float(x[b, at, along, channel]), i * kernel[1] + j
        y[b, row, column, channel], place[b, row, column, channel] = best, where + 0.1
    return y, place


def unpool_loops(
    x: Array, places: Array, kernel: tuple[int, int], strides: tuple[int, int]
) -> Array:
    n, height, width, depth = x.shape
    y = np.zeros((n, height * kernel[0], width * kernel[1], depth), np.float32)
    pad_h = same_padding(y.shape[1], height, strides[0], kernel[0])
    pad_w = same_padding(y.shape[2], width, strides[1], kernel[1])
    for b, row, column, channel in np.ndindex(*x.shape):
        index = int(places[b, row, column, channel])
        at = row * strides[0] - pad_h + index // kernel[1]
        along = column * strides[1] - pad_w + index % kernel[1]
        if 0 <= at < y.shape[1] and 0 <= along < y.shape[2]:
            y[b, at, along, channel] = x[b, row, column, channel]
    return y


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(
    ("kernel", "strides"), [((2, 2), (2, 2)), ((3, 2), (2, 3)), ((3, 3), (1, 1))]
)
def test_max_pooling_with_argmax(
    padding: int, kernel: tuple[int, int], strides: tuple[int, int]
) -> None:
    x = np.round(floats(2, 7, 6, 3) * 2) / 2
    assert len(np.unique(x)) < x.size / 4, "ties, of which the first one counts"
    options = pool_params(padding, strides, kernel)
    got = converted("MaxPoolingWithArgmax2D", {"x": x}, 2, options)
    y, places = max_pool_loops(x, kernel, strides, padding)
    np.testing.assert_array_equal(got["y0"], y)
    np.testing.assert_allclose(got["y1"], places, rtol=1e-6)


@pytest.mark.parametrize("padding", [SAME, VALID])
@pytest.mark.parametrize(
    ("kernel", "strides"), [((2, 2), (2, 2)), ((2, 3), (2, 2)), ((2, 2), (3, 3))]
)
def test_max_unpooling(padding: int, kernel: tuple[int, int], strides: tuple[int, int]) -> None:
    x = floats(1, 3, 4, 2)
    places = np.random.default_rng(0).integers(0, math.prod(kernel), x.shape) + np.float32(0.1)
    places = places.astype(np.float32)
    options = pool_params(padding, strides, kernel)
    got = converted("MaxUnpooling2D", {"x": x, "places": places}, 1, options)
    np.testing.assert_array_equal(got["y0"], unpool_loops(x, places, kernel, strides))


def test_pooling_and_unpooling_as_litert_does() -> None:
    """XNNPACK runs this pair, and only in the shape that hair_segmentation has."""
    file = ModelFile()
    file.input("x", (1, 8, 6, 4))
    for name in ("pooled", "places", "y"):
        file.tensor(name, (1, 8, 6, 4) if name == "y" else (1, 4, 3, 4))
    options = [pool_params(padding, (2, 2), (2, 2)) for padding in (SAME, VALID)]
    file.operator("MaxPoolingWithArgmax2D", ["x"], ["pooled", "places"], custom=options[0])
    file.operator("MaxUnpooling2D", ["pooled", "places"], ["y"], custom=options[1])
    model, inputs = file.pack(["y"]), {"x": floats(1, 8, 6, 4)}
    assert_agrees(convert(model), inputs, litert(model, inputs))


@pytest.mark.parametrize(("stride", "kernel"), [(2, 3), (2, 2), (1, 3), (3, 2)])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_transpose_conv_with_bias(stride: int, kernel: int, padding: int) -> None:
    file = ModelFile()
    x, weights, bias = floats(1, 4, 5, 3), floats(2, kernel, kernel, 3), floats(2)
    file.input("x", x.shape)
    file.tensor("weights", weights)
    file.tensor("bias", bias)
    file.tensor("y", (1, 1, 1, 1))
    options = np.array([padding, stride, stride], "<i4").tobytes()
    file.operator("Convolution2DTransposeBias", ["x", "weights", "bias"], ["y"], custom=options)
    totals = [max(0, kernel - (size - 1) % stride - 1) if padding == SAME else 0 for size in (4, 5)]
    height, width = (
        stride * (size - 1) + kernel - total for size, total in zip((4, 5), totals, strict=True)
    )
    y = np.tile(bias, (1, height, width, 1))
    for row, column, i, j in np.ndindex(4, 5, kernel, kernel):
        at, along = row * stride - totals[0] // 2 + i, column * stride - totals[1] // 2 + j
        if 0 <= at < height and 0 <= along < width:
            y[0, at, along] += weights[:, i, j] @ x[0, row, column]
    got = run(convert(file.pack(["y"])), {"x": x})["y"]
    np.testing.assert_allclose(got, y, rtol=1e-5, atol=1e-5)


LANDMARKS = np.random.default_rng(8).uniform(20, 170, (1, 12, 3)).astype(np.float32)
MATRIX_OPTIONS: dict[str, Any] = {
    "left_rotation_idx": 3, "right_rotation_idx": 7, "subset_idxs": [3, 5, 7, 8, 1, 11],
    "output_height": 16, "output_width": 12, "scale_x": 1.5, "scale_y": 1.25,
    "target_rotation_radians": 0.25,
}  # fmt: skip


def test_landmarks_to_transform_matrix() -> None:
    """Multiply matrices: shift to the centre, rotate back, scale, shift to the crop's centre."""
    options = bytes(flexbuffers.Dumps(MATRIX_OPTIONS))
    got = converted("Landmarks2TransformMatrix", {"x": LANDMARKS}, 1, options, 2)["y0"]
    points = LANDMARKS[0].astype(np.float64)
    delta = points[7] - points[3]
    turn = 0.25 - math.atan2(delta[1], delta[0])
    turned = [
        (
            points[i][0] * math.cos(turn) - points[i][1] * math.sin(turn),
            points[i][0] * math.sin(turn) + points[i][1] * math.cos(turn),
        )
        for i in MATRIX_OPTIONS["subset_idxs"]
    ]
    xs, ys = zip(*turned, strict=True)
    middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2
    centre = (
        middle[0] * math.cos(-turn) - middle[1] * math.sin(-turn),
        middle[0] * math.sin(-turn) + middle[1] * math.cos(-turn),
    )

    def shift(x: float, y: float) -> Array:
        matrix = np.eye(4)
        matrix[0, 3], matrix[1, 3] = x, y
        return matrix

    rotation, scale = np.eye(4), np.eye(4)
    rotation[:2, :2] = [
        [math.cos(-turn), -math.sin(-turn)],
        [math.sin(-turn), math.cos(-turn)],
    ]
    scale[0, 0], scale[1, 1] = 1.5 * (max(xs) - min(xs)) / 12, 1.25 * (max(ys) - min(ys)) / 16
    wanted = shift(*centre) @ rotation @ scale @ shift(-6, -8)
    np.testing.assert_allclose(got[0], wanted, rtol=1e-5, atol=1e-4)


def test_the_crop_holds_the_landmarks() -> None:
    """The middle of the box round them is the middle of the crop; 1 / scale of it is full."""
    options = {name: value for name, value in MATRIX_OPTIONS.items() if name != "subset_idxs"}
    subset = tuple(MATRIX_OPTIONS["subset_idxs"])
    matrix: Array = np.asarray(
        landmarks2_transform_matrix.reference(LANDMARKS, subset_idxs=subset, **options)
    )[0].astype(np.float64)
    points = np.concatenate([LANDMARKS[0, :, :2], np.zeros((12, 1)), np.ones((12, 1))], 1)
    inverse: Array = np.asarray(np.linalg.inv(matrix))
    inside: Array = (inverse @ points.T)[:2, list(subset)]
    sizes = inside.max(1) - inside.min(1)
    np.testing.assert_allclose(inside.min(1) + inside.max(1), [12, 16], rtol=1e-4)
    np.testing.assert_allclose(sizes, [12 / 1.5, 16 / 1.25], rtol=1e-4)


def test_the_first_version_of_the_transform_matrix() -> None:
    """It works in a unit of -1..1 across the source and across the crop."""
    options = {
        "left_rotation_idx": 3, "right_rotation_idx": 7, "subset": [3, 5, 7, 8],
        "output_hw": [16, 12], "input_hw": [48, 40], "landmarks_range": 192,
        "bbox_size_multiplier": 1.5, "dimensions": 3,
    }  # fmt: skip
    landmarks = LANDMARKS.reshape(1, 1, 1, 36)
    got = converted(
        "Landmarks2TransformMatrix", {"x": landmarks}, 1, bytes(flexbuffers.Dumps(options))
    )["y0"]
    points = LANDMARKS[0].astype(np.float64)
    delta = points[7] - points[3]
    turn = -math.atan(delta[1] / delta[0])
    cos, sin = math.cos(turn), math.sin(turn)
    turned = np.array([(x * cos - y * sin, x * sin + y * cos) for x, y, _ in points[[3, 5, 7, 8]]])
    least, most = turned.min(0), turned.max(0)
    mx, my = (least + most) / 2
    cx, cy = mx * cos + my * sin, -mx * sin + my * cos
    width, height = (most - least) * 1.5 / 192
    scale = np.diag([width, height, 1])
    rotation = np.array([[cos, sin, cx / 192 * 2 - 1], [-sin, cos, cy / 192 * 2 - 1], [0, 0, 1]])
    relative = np.array([[2 / 11, 0, -1], [0, 2 / 15, -1], [0, 0, 1]])
    absolute = np.array([[39 / 2, 0, 39 / 2], [0, 47 / 2, 47 / 2], [0, 0, 1]])
    whole = absolute @ rotation @ scale @ relative
    wanted = np.zeros((4, 4))
    wanted[:2, :2], wanted[:2, 3], wanted[2, 2], wanted[3, 3] = whole[:2, :2], whole[:2, 2], 1, 1
    np.testing.assert_allclose(got[0], wanted, rtol=1e-5, atol=1e-4)


TURN = np.array(
    [[[0.7, 0.2, 0, -0.6], [-0.3, 0.9, 0, 1.3], [0, 0, 1, 0], [0, 0, 0, 1]]], np.float32
)


@pytest.mark.parametrize("version", [1, 2])
def test_transform_tensor_bilinear(version: int) -> None:
    x = floats(1, 7, 8, 3)
    size = {"output_height": 6, "output_width": 9}
    if version == 1:
        size = {"output_size": [6, 9]}  # type: ignore[dict-item]
    options = bytes(flexbuffers.Dumps(size))
    got = converted("TransformTensorBilinear", {"x": x, "matrix": TURN}, 1, options, version)["y0"]
    wanted = np.zeros((1, 6, 9, 3), np.float32)
    half = 0.5 if version == 2 else 0.0
    for row, column in np.ndindex(6, 9):
        right, below, _, _ = TURN[0] @ np.array([column + half, row + half, 0, 1], np.float32)
        right, below = right - half, below - half
        if 0 <= right <= 7 and 0 <= below <= 6:
            left, top = math.floor(right), math.floor(below)
            for i, weight_y in ((top, top + 1 - below), (top + 1, below - top)):
                for j, weight_x in ((left, left + 1 - right), (left + 1, right - left)):
                    if i < 7 and j < 8:
                        wanted[0, row, column] += weight_y * weight_x * x[0, i, j]
    assert 0.1 < np.mean(wanted == 0) < 0.9
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("version", [1, 2])
def test_transform_landmarks(dimensions: int, version: int) -> None:
    landmarks = floats(1, 5, dimensions)
    options, scale = b"", 1.0
    shaped = landmarks
    if version == 1:
        scale = 2.0
        options = bytes(flexbuffers.Dumps({"dimensions": dimensions, "scale": scale}))
        shaped = landmarks.reshape(1, 1, 1, -1)
    inputs = {"x": shaped, "matrix": TURN}
    got = converted("TransformLandmarks", inputs, 1, options, version)["y0"]
    wanted = landmarks.copy()
    for point in range(5):
        x, y = landmarks[0, point, :2]
        for i in range(2):
            a, b, _, d = TURN[0, i]
            wanted[0, point, i] = a * x + b * y + d * scale
    np.testing.assert_allclose(got.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-6)


def broken(**changes: Any) -> bytes:
    values = {**MATRIX_OPTIONS, **changes}
    return bytes(flexbuffers.Dumps({k: v for k, v in values.items() if v is not None}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (b"", "option left_rotation_idx: expected a number"),
        (b"\x01\x02\x03", "Landmarks2TransformMatrix"),
        (b"\xff" * 40, "Landmarks2TransformMatrix"),
        (broken(scale_x=None), "option scale_x: expected a number"),
        (broken(subset_idxs=None), "option subset_idxs: expected a list"),
        (broken(subset_idxs=[1.5, 2.5]), "expected whole numbers"),
        (broken(left_rotation_idx=12), "has not all of"),
        (broken(subset_idxs=[3, -1]), "has not all of"),
        (broken(output_height=0), "out of range"),
        (broken(scale_y=-1.0), "out of range"),
        (broken()[:-3], "Landmarks2TransformMatrix"),
    ],
)
def test_options_that_cannot_be(options: bytes, message: str) -> None:
    model = custom("Landmarks2TransformMatrix", {"x": LANDMARKS}, 1, options, 2)
    with pytest.raises(ModelError, match=message):
        convert(model)


@pytest.mark.parametrize(
    ("options", "message"),
    [(b"\1\0\0\0", "expected 24 bytes"), (pool_params(7, (2, 2), (2, 2)), "padding of number 7"),
     (pool_params(SAME, (0, 2), (2, 2)), "strides: expected at least 1"),
     (pool_params(SAME, (2, 2), (-2, 2)), "kernel_shape: expected at least 1")],
)  # fmt: skip
def test_pooling_that_cannot_be(options: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        convert(custom("MaxPoolingWithArgmax2D", {"x": floats(1, 4, 4, 1)}, 2, options, 1))


def test_versions_that_are_not_known() -> None:
    inputs = {"x": floats(1, 5, 2), "matrix": TURN}
    with pytest.raises(UnsupportedError, match="TransformLandmarks of version 3"):
        convert(custom("TransformLandmarks", inputs, 1, b"", 3))
