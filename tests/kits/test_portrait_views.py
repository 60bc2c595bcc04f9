import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.portrait.views import (
    WHOLE,
    Halves,
    box_of_people,
    shrink,
)

SIZES = [(1, 1), (3, 700), (480, 640), (481, 639), (512, 512), (1080, 1920), (1201, 1599)]


def noise(height: int, width: int) -> Image:
    return np.random.default_rng(height + width).integers(0, 256, (height, width, 3), np.uint8)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_a_part_is_what_shrinking_gives(height: int, width: int) -> None:
    random = np.random.default_rng(7)
    image = noise(height, width)
    halves = Halves(image)
    assert halves.size == (width, height)
    for number in range(40):
        # Mostly as the kit asks for them, sometimes with odd edges.
        step = 8 if number % 4 else 1
        left, right = sorted(random.integers(0, width // step + 1, 2) * step)
        top, bottom = sorted(random.integers(0, height // step + 1, 2) * step)
        box = (left, top, max(right, left + 1), max(bottom, top + 1))
        if number == 0 or box[2] > width or box[3] > height:
            box = (0, 0, width, height)
        for side in (32, 64, 100):
            got = halves.part(box, side)
            assert got.shape == (side, side, 3) and got.dtype == np.uint8
            wanted = shrink(image[box[1] : box[3], box[0] : box[2]], side)
            assert (got == wanted).all(), (box, side)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_a_glance_at_a_part_is_that_at_the_part_alone(height: int, width: int) -> None:
    random = np.random.default_rng(3)
    image = noise(height, width)
    halves = Halves(image)
    for number in range(30):
        step = 16 if number % 3 else 1
        left, right = sorted(random.integers(0, width // step + 1, 2) * step)
        top, bottom = sorted(random.integers(0, height // step + 1, 2) * step)
        if left == right or top == bottom:
            continue
        alone = Halves(image[top:bottom, left:right]).glance(48)
        part = int(left), int(top), int(right), int(bottom)
        np.testing.assert_array_equal(halves.glance(48, part), alone)


@pytest.mark.parametrize(("height", "width"), [*SIZES[2:], (300, 1000)])
def test_a_glance_is_nearly_the_mean_of_areas(height: int, width: int) -> None:
    import cv2

    # Colours that change over a third of the picture, and a little of every pixel's own.
    smooth = cv2.resize(noise(3, 4), (width, height), interpolation=cv2.INTER_CUBIC)
    image = np.asarray(0.9 * smooth + 0.1 * noise(height, width)).astype(np.uint8)
    for side in (32, 64, 128):
        got = Halves(image).glance(side)
        assert got.shape == (side, side, 3) and got.dtype == np.uint8
        wanted = cv2.resize(image, (side, side), interpolation=cv2.INTER_AREA)
        assert np.abs(got.astype(int) - wanted).mean() < 1.5


def mask_of(*boxes: tuple[int, int, int, int]) -> NDArray[np.float32]:
    mask = np.zeros((64, 64), np.float32)
    for left, top, right, bottom in boxes:
        mask[top:bottom, left:right] = 1
    return mask


def test_the_box_has_all_people_and_some_room() -> None:
    assert box_of_people(mask_of(), 640, 480) is None
    # 200 by 150 pixels from 100, 75 on, 15 % more on each side, to multiples of 8.
    assert box_of_people(mask_of((10, 10, 30, 30)), 640, 480) == (64, 48, 336, 248)
    both = box_of_people(mask_of((10, 10, 30, 30), (60, 0, 64, 5)), 640, 480)
    assert both == (16, 0, 640, 264)
    faint = mask_of((10, 10, 30, 30)) * np.float32(0.4)
    assert box_of_people(faint, 640, 480) is None


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (333, 211), (1919, 1081)])
def test_a_box_lies_in_the_picture(size: tuple[int, int]) -> None:
    width, height = size
    random = np.random.default_rng(3)
    for _ in range(60):
        left, right = sorted(random.integers(0, 64, 2))
        top, bottom = sorted(random.integers(0, 64, 2))
        box = box_of_people(mask_of((left, top, right + 1, bottom + 1)), width, height)
        assert box is not None
        assert 0 <= box[0] <= left * width / 64 and (right + 1) * width / 64 <= box[2] <= width
        assert 0 <= box[1] <= top * height / 64 and (bottom + 1) * height / 64 <= box[3] <= height
        whole = (box[2] - box[0]) * (box[3] - box[1]) / (width * height)
        assert whole < WHOLE or box == (0, 0, width, height)
