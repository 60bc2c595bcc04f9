"""Pictures fitted and crops drawn in C are those of Python.

They are the same to the last bit where OpenCV computes as it does on x86-64 since its version 5;
between pixels other machines may round elsewhere, by 1 of 255.
"""

import math
import platform
from ctypes import byref, c_int32

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.hands import crop as hand_crops
from palmkit.kits.image import Flip, Image, Rotation, letterbox, read_image, resize
from palmkit.kits.portrait.views import shrink
from tests.kits.native import library
from tests.kits.native.library import Library

Floats = NDArray[np.float32]
IS_SAME = int(cv2.__version__.split(".")[0]) >= 5 and platform.machine() == "x86_64"
# Of 255; and the share of values that differ at all.
MOST_OFF, MOST_SHARE = (0, 0.0) if IS_SAME else (1, 0.002)


def check_pixels(ours: Floats, expected: Image) -> None:
    off = np.abs(ours - expected.astype(np.float32))
    assert off.max() <= MOST_OFF and (off > 0).mean() <= MOST_SHARE


@pytest.mark.parametrize(
    "part", [None, (0, 0, 512, 512), (100.5, 33.2, 300, 211), (-50, 400, 200, 300)]
)
@pytest.mark.parametrize("shape", [(320, 320), (160, 224), (96, 640), (512, 512)])
@pytest.mark.parametrize("max_scale", [1.0, 2.0])
def test_letterbox(
    c: Library,
    astronaut: Image,
    part: tuple[float, float, float, float] | None,
    shape: tuple[int, int],
    max_scale: float,
) -> None:
    expected, placement = letterbox(astronaut, *shape, part=part, max_scale=max_scale)
    ours = np.empty((*shape, 3), np.float32)
    placed = library.Placement()
    given, kept = library.image(astronaut)
    where = None if part is None else byref(library.Part(*part))
    c.call(
        "letterbox", byref(given), where, max_scale, byref(library.input_of(ours)), byref(placed)
    )
    check_pixels(ours, expected)
    matrix = np.array([[placed.scale_x, 0, placed.shift_x], [0, placed.scale_y, placed.shift_y]])
    assert np.array_equal(matrix, placement.matrix)
    points = np.random.default_rng(0).uniform(0, 300, (50, 2)).astype(np.float32)
    wanted = placement.to_picture(points)
    c.call("to_picture", byref(placed), points, 50)
    np.testing.assert_allclose(points, wanted, rtol=0, atol=1e-4)
    assert kept.size


@pytest.mark.parametrize("format", range(5))
@pytest.mark.parametrize("room", [0, 13])
@pytest.mark.parametrize("layout", [library.NHWC, library.NCHW])
def test_every_format_and_layout(
    c: Library, astronaut: Image, format: int, room: int, layout: int
) -> None:
    given, kept = library.image(astronaut, format, room)
    ours = np.empty((120, 200, 3) if layout == library.NHWC else (3, 120, 200), np.float32)
    taken = library.input_of(ours, layout)
    taken.mean[:], taken.scale[:] = (10, 20, 30), (0.5, 0.25, 1 / 255)
    c.call("stretch", byref(given), None, byref(taken))
    shown = np.repeat(astronaut[:, :, :1], 3, axis=2) if format == library.GREY else astronaut
    expected = resize(shown, 120, 200).astype(np.float32)
    mean, scale = (np.array(each, np.float32) for each in ((10, 20, 30), (0.5, 0.25, 1 / 255)))
    expected = (expected - mean) * scale
    found = ours if layout == library.NHWC else ours.transpose(1, 2, 0)
    assert np.array_equal(found, expected) and kept.size


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("flip", [None, "horizontal"])
@pytest.mark.parametrize("format", [library.RGB, library.BGRA])
def test_pictures_that_are_not_upright(
    c: Library, astronaut: Image, rotation: Rotation, flip: Flip | None, format: int
) -> None:
    lying = np.ascontiguousarray(astronaut[:400])
    given, kept = library.image(lying, format, 5)
    given.rotation, given.is_mirrored = rotation, int(flip is not None)
    upright = read_image(lying, rotation=rotation, flip=flip)
    ours = np.empty((90, 100, 3), np.float32)
    part = (60, 30, 250, 301)
    at = library.Placement()
    c.call(
        "letterbox",
        byref(given),
        byref(library.Part(*part)),
        1.0,
        byref(library.input_of(ours)),
        byref(at),
    )
    expected, _ = letterbox(upright, 90, 100, part=part)
    assert np.array_equal(ours, expected) and kept.size


@pytest.mark.parametrize("shape", [(512, 512), (486, 512), (511, 333), (1024, 980), (100, 200)])
def test_what_networks_of_masks_see(c: Library, astronaut: Image, shape: tuple[int, int]) -> None:
    picture = resize(astronaut, *shape)
    given, kept = library.image(picture)
    ours = np.empty((256, 256, 3), np.float32)
    c.call("shrink", byref(given), None, byref(library.input_of(ours)))
    check_pixels(ours, shrink(picture, 256))
    assert kept.size


CROPS = [
    Crop(256, 256, 300),
    Crop(224.3, 120.7, 150.2, 0.3),
    Crop(240, 110, 90, -2.5),
    Crop(500, 500, 400, 1.2),
    Crop(-10, 20, 60, 0.1),
    Crop(256, 256, 3000, 0.7),
    Crop(256.5, 100.25, 160, 0),
    Crop(300, 300, 1, 0),
    Crop(-400, -400, 100, 0),
]


@pytest.mark.parametrize("crop", CROPS)
@pytest.mark.parametrize("mirrored", [False, True])
def test_crops_are_drawn(c: Library, astronaut: Image, crop: Crop, mirrored: bool) -> None:
    expected = sample(astronaut, crop, 160)
    given, kept = library.image(astronaut)
    ours = np.empty((160, 160, 3), np.float32)
    at = library.Crop(crop.x, crop.y, crop.side, crop.angle)
    flag = c_int32(mirrored)
    c.call("crop_draw", byref(given), byref(at), flag, byref(library.input_of(ours)))
    check_pixels(ours, expected[:, ::-1] if mirrored else expected)
    assert kept.size


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("crop", CROPS)
def test_points_go_to_the_picture_and_back(c: Library, crop: Crop, dims: int) -> None:
    points = np.random.default_rng(dims).uniform(-1, 2, (478, dims)).astype(np.float32)
    at = library.Crop(crop.x, crop.y, crop.side, crop.angle)
    ours, count = points.copy(), c_int32(dims)
    c.call("crop_to_picture", byref(at), ours, len(points), count)
    expected = crop.to_picture(points)
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-5)
    back = crop.to_crop(expected)
    c.call("crop_from_picture", byref(at), ours, len(points), count)
    np.testing.assert_allclose(ours, back, rtol=1e-5, atol=2e-4)


def check_crop(ours: library.Crop, expected: Crop) -> None:
    found = (ours.x, ours.y, ours.side, ours.angle)
    wanted = (expected.x, expected.y, expected.side, expected.angle)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_crops_of_faces_and_hands(c: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    turn = rng.uniform(-math.pi, math.pi)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    face = np.array([[30, -20], [-30, -20], [0, 5], [22, 35], [-22, 35]], np.float64)
    keypoints = (face @ rotation.T + 200 + rng.normal(0, 3, (5, 2))).astype(np.float32)
    box = np.array([130, 120, 140, 160], np.float32) + rng.normal(0, 5, 4).astype(np.float32)
    ours = library.Crop()
    c.call("face_crop", keypoints, box, byref(ours))
    check_crop(ours, crop_from_keypoints(keypoints, box))
    mesh = rng.uniform(100, 300, (478, 3)).astype(np.float32)
    c.call("mesh_crop", mesh, byref(ours))
    check_crop(ours, crop_from_mesh(mesh))
    hand = rng.uniform(100, 300, (2, 2)).astype(np.float32)
    c.call("hand_crop", hand, box, byref(ours))
    check_crop(ours, hand_crops.crop_from_keypoints(hand, box))
    landmarks = rng.uniform(100, 300, (21, 3)).astype(np.float32)
    c.call("landmarks_crop", landmarks, byref(ours))
    check_crop(ours, hand_crops.crop_from_landmarks(landmarks))
