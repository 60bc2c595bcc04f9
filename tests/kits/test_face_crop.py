import math

import numpy as np
import pytest

from palmkit.kits.crop import Crop, sample
from palmkit.kits.face.crop import crop_from_keypoints, crop_from_mesh
from palmkit.kits.face.topology import MIRROR, POINTS, canonical_face, points_68, weights_68


def test_points_go_to_the_crop_and_back() -> None:
    crop = Crop(120.0, 80.0, 50.0, 0.4)
    points = np.random.default_rng(0).uniform(0, 200, (9, 3)).astype(np.float32)
    inside = crop.to_crop(points)
    np.testing.assert_allclose(crop.to_picture(inside), points, atol=1e-3)
    np.testing.assert_allclose(inside[:, 2] * 50, points[:, 2], rtol=1e-5)
    np.testing.assert_allclose(crop.to_crop(np.array([120.0, 80.0])), [0.5, 0.5], atol=1e-6)


def test_a_face_turned_clockwise_is_level_in_its_crop() -> None:
    crop = Crop(100.0, 100.0, 60.0, math.radians(30))
    # Its left eye lies to the right and lower in the picture.
    left_eye = np.array([100 + 10 * math.cos(crop.angle), 100 + 10 * math.sin(crop.angle)])
    x, y = crop.to_crop(left_eye)
    assert x == pytest.approx(0.5 + 10 / 60)
    assert y == pytest.approx(0.5)


def test_moving_a_crop_follows_its_own_axes() -> None:
    crop = Crop(100.0, 100.0, 60.0, math.pi / 2)
    moved = crop.moved(0.1, 0.0, 2.0, 0.1)
    assert moved.x == pytest.approx(100.0)
    assert moved.y == pytest.approx(106.0)
    assert moved.side == 120.0
    assert moved.angle == pytest.approx(math.pi / 2 + 0.1)


@pytest.mark.parametrize("angle", [0.0, 0.6, -2.0])
@pytest.mark.parametrize("side", [40.0, 64.0, 400.0])
def test_sample_shows_what_the_matrix_says(angle: float, side: float) -> None:
    y, x = np.mgrid[:600, :600] + 0.5
    image = np.stack([x / 600 * 255, y / 600 * 255, np.full_like(x, 9)], axis=-1)
    crop = Crop(310.0, 290.0, side, angle)
    drawn = sample(image.round().astype(np.uint8), crop, 64).astype(np.float64)
    v, u = (np.mgrid[:64, :64] + 0.5) / 64
    true = crop.to_picture(np.stack([u, v], axis=-1)) / 600 * 255
    inner = slice(2, -2)
    assert np.abs(drawn[..., :2] - true)[inner, inner].max() < 1.6
    assert (drawn[..., 2] == 9).all()


def test_sample_beyond_the_picture() -> None:
    image = np.full((40, 30, 3), 77, np.uint8)
    assert (sample(image, Crop(0.0, 0.0, 50.0, 0.3), 32) == 77).all()
    assert (sample(image, Crop(500.0, 0.0, 50.0), 32) == 0).all()
    assert (sample(image, Crop(-500.0, -9.0, 50.0), 32) == 0).all()


def test_shrinking_does_not_alias() -> None:
    image = np.zeros((512, 512, 3), np.uint8)
    image[:, ::2] = 255
    drawn = sample(image, Crop(256.0, 256.0, 400.0, 0.2), 64)
    assert np.ptp(drawn[4:-4, 4:-4].astype(int)) < 30


def test_crop_from_mesh_is_level_and_has_the_margin() -> None:
    mesh = np.zeros((POINTS, 3), np.float32)
    mesh[:468, :2] = np.random.default_rng(1).uniform([10, 10], [50, 70], (468, 2))
    mesh[[33, 133], :2], mesh[[362, 263], :2] = [20, 30], [40, 30]
    mesh[[0, 1], :2] = [10, 10], [50, 70]
    crop = crop_from_mesh(mesh)
    assert crop.x == pytest.approx(30, abs=0.5)
    assert crop.y == pytest.approx(40, abs=0.5)
    assert crop.side == pytest.approx(90, abs=1)
    assert crop.angle == pytest.approx(0)
    turned = Crop(0.0, 0.0, 1.0, -0.5).to_crop(mesh)
    assert crop_from_mesh(turned).angle == pytest.approx(-crop.angle - 0.5 + 1.0, abs=1e-5)


def test_crop_from_keypoints_turns_with_the_face() -> None:
    points = np.array([[60, 40], [40, 40], [50, 52], [58, 62], [42, 62]], np.float32)
    crop = crop_from_keypoints(points, np.array([32, 22, 36, 50], np.float32))
    assert crop.angle == pytest.approx(0)
    assert crop.x == pytest.approx(50)
    assert 40 < crop.y < 56
    assert 60 < crop.side < 110
    upside_down = np.array([100, 100], np.float32) - points
    turned = crop_from_keypoints(upside_down, np.array([32, 28, 36, 50], np.float32))
    assert abs(turned.angle) == pytest.approx(math.pi)
    assert turned.x == pytest.approx(50)
    assert turned.y == pytest.approx(100 - crop.y)
    assert turned.side == pytest.approx(crop.side)


def test_mirror_swaps_the_halves() -> None:
    assert (MIRROR[MIRROR] == np.arange(POINTS)).all()
    assert MIRROR[33] == 263 and MIRROR[133] == 362 and MIRROR[61] == 291 and MIRROR[1] == 1
    assert MIRROR[468] == 473


def test_points_68_are_means_of_points_near_by_and_symmetric() -> None:
    order = [
        *range(16, -1, -1),
        *range(26, 16, -1),
        *(27, 28, 29, 30, 35, 34, 33, 32, 31),
        *(45, 44, 43, 42, 47, 46, 39, 38, 37, 36, 41, 40),
        *(54, 53, 52, 51, 50, 49, 48, 59, 58, 57, 56, 55),
        *(64, 63, 62, 61, 60, 67, 66, 65),
    ]
    weights = weights_68()
    assert weights.shape == (68, POINTS) and (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(weights[order][:, MIRROR], weights, atol=1e-7)
    for row, point in {8: 152, 30: 4, 36: 33, 45: 263, 48: 61, 51: 0, 62: 13, 66: 14}.items():
        centimetres = np.linalg.norm(points_68(canonical_face())[row] - canonical_face()[point])
        assert centimetres < 0.6, row
    mesh = np.random.default_rng(2).random((3, POINTS, 2))
    assert points_68(mesh).shape == (3, 68, 2)
    np.testing.assert_allclose(points_68(mesh[..., 0]), points_68(mesh)[..., 0], atol=1e-6)
