import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.portrait.views import (
    WHOLE,
    Halves,
    are_small,
    box_of_people,
    part_of,
    put_together,
    quarters,
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


def test_a_part_of_what_was_found_lies_where_the_part_does() -> None:
    """Values that rise evenly over a picture are in any part what they are there."""
    side, seen = 64, (10, 20, 410, 220)

    def rise(left: int, top: int, right: int, bottom: int) -> NDArray[np.float32]:
        middle = (np.arange(side) + 0.5) / side
        x = left + (right - left) * middle
        y = top + (bottom - top) * middle
        return np.asarray(x[None] / 1000 + y[:, None] / 400, np.float32)

    for box in (seen, (110, 60, 310, 160), (26, 36, 90, 204)):
        np.testing.assert_allclose(part_of(rise(*seen), box, seen), rise(*box), atol=4e-4)


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


def test_quarters_are_put_together_as_they_were() -> None:
    random = np.random.default_rng(0)
    for box in ((0, 0, 1, 1), (3, 5, 5, 6), (0, 0, 640, 480), (17, 40, 224, 399)):
        parts = quarters(box)
        assert len(parts) == 4
        width, height = box[2] - box[0], box[3] - box[1]
        seen = np.zeros((height, width), int)
        for left, top, right, bottom in parts:
            assert box[0] <= left < right <= box[2] and box[1] <= top < bottom <= box[3]
            seen[top - box[1] : bottom - box[1], left - box[0] : right - box[0]] += 1
        assert seen.min() == 1 or width * height < 12
        found = [np.full((32, 32), float(value), np.float32) for value in random.random(4)]
        mask = put_together(found, parts, box)
        assert mask.shape == (32, 32) and mask.dtype == np.float32
        assert np.min(found) - 1e-6 <= mask.min() and mask.max() <= np.max(found) + 1e-6
        assert put_together([np.ones((32, 32), np.float32)] * 4, parts, box).max() == 1
        assert mask[16, 16] == pytest.approx(np.mean(found))
        if width > 10:
            corners = mask[0, 0], mask[0, -1], mask[-1, 0], mask[-1, -1]
            assert corners == pytest.approx([each[0, 0] for each in found])


def test_people_are_small_where_each_of_them_is() -> None:
    mask = np.zeros((40, 40), np.float32)
    assert are_small(mask)
    mask[2:12, 2:22], mask[20:30, 2:22] = 1, 0.9
    assert are_small(mask)
    mask[12:20, 2:4] = 0.4
    assert are_small(mask)
    mask[12:20, 2:4] = 0.6
    assert not are_small(mask)
