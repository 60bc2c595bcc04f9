import math

import numpy as np
import pytest

from palmkit.kits.crop import Crop, sample
from palmkit.kits.hands.crop import crop_from_keypoints, crop_from_landmarks, palm_size


def open_hand() -> np.ndarray:
    """21 landmarks of an upright flat hand, palm length 100, wrist at (200, 300)."""
    hand = np.zeros((21, 3), np.float32)
    hand[1:5, :2] = [[-30, -25], [-50, -50], [-65, -75], [-80, -95]]
    for finger, x in enumerate((-28, 0, 22, 40)):
        base = -100 + 6 * abs(finger - 1)
        for joint, out in enumerate((0, 40, 65, 85)):
            hand[5 + 4 * finger + joint, :2] = x * (1 + joint * 0.1), base - out
    hand[:, :2] += [200, 300]
    return hand


def turned(points: np.ndarray, degrees: float) -> np.ndarray:
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    out = points.copy()
    out[:, :2] = (points[:, :2] - [200, 200]) @ turn + [200, 200]
    return out


def test_crop_maps_there_and_back() -> None:
    crop = Crop(120, 80, 50, 0.7)
    points = np.array([[120, 80, 5], [130, 99, -10]], np.float32)
    inside = crop.to_crop(points)
    assert inside[0] == pytest.approx([0.5, 0.5, 0.1])
    assert crop.to_picture(inside) == pytest.approx(points, abs=1e-4)
    matrix = crop.matrix()
    assert matrix[:, :2] @ points[1, :2] + matrix[:, 2] == pytest.approx(inside[1, :2])


@pytest.mark.parametrize("degrees", [0, 37, 90, 180, -120])
def test_the_crop_turns_with_the_hand(degrees: float) -> None:
    straight = crop_from_landmarks(open_hand())
    hand = turned(open_hand(), degrees)
    crop = crop_from_landmarks(hand)
    assert crop.side == pytest.approx(straight.side, rel=1e-4)
    inside = crop.to_crop(hand)
    assert inside == pytest.approx(straight.to_crop(open_hand()), abs=1e-4)
    along = inside[9, :2] - inside[0, :2]
    assert along[1] < 0 and abs(along[0]) < 1e-4
    assert inside[:, :2].min() > 0.1 and inside[:, :2].max() < 0.9
    up = np.array([0, -1, 0]) + hand[0]
    step = crop.to_crop(np.stack([hand[0], up]))
    assert (step[1] - step[0])[:2] * crop.side == pytest.approx(crop.up, abs=1e-2)


@pytest.mark.parametrize("degrees", [0, 45, 90, 200])
def test_the_detectors_crop_is_near_the_landmarks_crop(degrees: float) -> None:
    hand = turned(open_hand(), degrees)
    low, high = hand[:, :2].min(axis=0), hand[:, :2].max(axis=0)
    box = np.concatenate([low, high - low])
    found = crop_from_keypoints(hand[[0, 9], :2], box)
    known = crop_from_landmarks(hand)
    assert found.angle == pytest.approx(known.angle, abs=1e-5)
    assert 0.8 < found.side / known.side < 1.25
    apart = math.hypot(found.x - known.x, found.y - known.y)
    assert apart < 0.15 * known.side


def test_palm_size_survives_foreshortening() -> None:
    hand = open_hand()
    assert palm_size(hand) == pytest.approx(100, rel=0.1)
    hand[:, 1] = 300 + (hand[:, 1] - 300) * 0.2
    assert palm_size(hand) > 70


def test_a_point_is_a_crop_with_area() -> None:
    crop = crop_from_keypoints(np.zeros((2, 2)), np.zeros(4))
    assert crop.side > 0 and math.isfinite(crop.angle)


@pytest.mark.parametrize("side", [20, 50, 140])
def test_sample_draws_what_the_crop_says(side: float) -> None:
    image = np.zeros((200, 300, 3), np.uint8)
    y, x = np.mgrid[:200, :300] + 0.5
    image[..., 0] = np.clip(x * 0.8, 0, 255).round()
    image[..., 1] = np.clip(y, 0, 255).round()
    crop = Crop(150, 100, side, 0.5)
    drawn = sample(image, crop, 40)
    grid = (np.mgrid[:40, :40][::-1].transpose(1, 2, 0) + 0.5) / 40
    where = crop.to_picture(grid.astype(np.float32))
    assert np.abs(drawn[..., 0] - where[..., 0] * 0.8).max() < 2
    assert np.abs(drawn[..., 1] - where[..., 1]).max() < 2


def test_sample_averages_when_it_shrinks() -> None:
    image = np.zeros((256, 256, 3), np.uint8)
    image[:, ::2] = 255
    drawn = sample(image, Crop(128, 128, 200, 0.3), 40)
    assert np.abs(drawn.astype(int) - 127).max() < 40


def test_wholly_outside_the_picture_is_black_and_the_border_goes_on() -> None:
    image = np.full((50, 50, 3), 255, np.uint8)
    for side in (30, 300):
        assert not sample(image, Crop(-1000, 20, side, 0.1), 32).any()
    assert (sample(image, Crop(0, 25, 40, 0), 32) == 255).all()
