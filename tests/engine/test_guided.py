from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.engine.errors import ShapeError
from palmkit.engine.guided import guided_fit, guided_upsample

Grid = NDArray[np.float32]


def grids(count: int, height: int, width: int, scale: float) -> list[Grid]:
    random = np.random.default_rng(count)
    made = [random.uniform(-scale, scale, (height, width)) for _ in range(count)]
    return [each.astype(np.float32) for each in made]


def enlarged(grid: Grid, height: int, width: int) -> Grid:
    import cv2

    return np.asarray(cv2.resize(grid, (width, height)), np.float32)


@pytest.mark.parametrize("size", [(480, 640), (31, 17), (1, 1), (3, 1000), (256, 256), (100, 90)])
@pytest.mark.parametrize("planes", [1, 3])
def test_it_is_what_enlarging_everything_gives(size: tuple[int, int], planes: int) -> None:
    import cv2

    (offset,), slopes = grids(1, 128, 120, 1), grids(planes, 64, 60, 0.01)
    for slope in slopes:
        slope[:, 20:] = 0
    image = np.random.default_rng(9).integers(0, 256, (*size, 3), np.uint8)
    colours = (
        [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)] if planes == 1 else list(np.moveaxis(image, 2, 0))
    )
    expected = enlarged(offset, *size)
    for slope, colour in zip(slopes, colours, strict=True):
        expected += enlarged(slope, *size) * colour
    to = np.full(size, 9, np.float32)
    guided_upsample(offset, slopes, image, to)
    np.testing.assert_allclose(to, expected.clip(0, 1), atol=1e-5)


def test_parts_of_arrays() -> None:
    (offset,), slopes = grids(1, 16, 16, 1), grids(1, 8, 8, 0.01)
    image = np.random.default_rng(2).integers(0, 256, (50, 60, 3), np.uint8)
    whole = np.full((50, 60), 9, np.float32)
    guided_upsample(offset[2:9], [slopes[0][:, 1:6]], image[4:20, 5:25], whole[4:20, 5:25])
    part = np.empty((16, 20), np.float32)
    crop, slope = np.ascontiguousarray(image[4:20, 5:25]), np.ascontiguousarray(slopes[0][:, 1:6])
    guided_upsample(np.ascontiguousarray(offset[2:9]), [slope], crop, part)
    assert (whole[4:20, 5:25] == part).all()
    assert (whole == 9).sum() == whole.size - part.size


@pytest.mark.parametrize(("height", "width"), [(1, 9), (9, 1), (1, 1)])
def test_how_far_a_single_row_or_pixel_is_from_the_next_does_not_matter(
    height: int, width: int
) -> None:
    (offset,), slopes = grids(1, 4, 4, 1), grids(1, 4, 4, 0.01)
    image = np.random.default_rng(3).integers(0, 256, (height, width, 3), np.uint8)
    plain, turned = np.empty((2, height, width), np.float32)
    guided_upsample(offset, slopes, image, plain)
    mirrored = np.s_[:: -1 if height == 1 else 1, :: -1 if width == 1 else 1]
    guided_upsample(offset, slopes, image[mirrored], turned[mirrored])
    assert (plain == turned).all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"slopes": grids(2, 4, 4, 1)}, ShapeError, "slopes: expected 1 or 3, got 2"),
        (
            {"slopes": [*grids(2, 4, 4, 1), *grids(1, 4, 5, 1)]},
            ShapeError,
            "slopes: expected arrays of one size",
        ),
        ({"to": np.zeros((8, 9), np.float32)}, ShapeError, "to: expected the size of the image"),
        ({"to": np.zeros((8, 16), np.float32)[:, ::2]}, ShapeError, "to: expected rows"),
        ({"to": np.zeros((8, 8), np.float32)[::-1]}, ShapeError, "to: expected rows"),
        ({"offset": np.zeros((0, 4), np.float32)}, ShapeError, "offset: expected rows"),
        ({"image": np.zeros((8, 8, 3), np.uint8)[..., ::-1]}, ShapeError, "image: expected rows"),
        ({"image": np.zeros((8, 8, 4), np.uint8)}, TypeError, "expected"),
        ({"image": np.zeros((8, 8, 3), np.float32)}, TypeError, "expected"),
        ({"offset": np.zeros((4, 4))}, TypeError, "expected"),
        ({"to": np.zeros(8, np.float32)}, TypeError, "expected"),
    ],
)
def test_what_does_not_fit(change: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {
        "offset": np.zeros((4, 4), np.float32),
        "slopes": grids(1, 4, 4, 1),
        "image": np.zeros((8, 8, 3), np.uint8),
        "to": np.zeros((8, 8), np.float32),
    }
    guided_upsample(**arguments)
    with pytest.raises(error, match=message):
        guided_upsample(**(arguments | change))


def test_a_target_that_may_not_be_written() -> None:
    to = np.zeros((8, 8), np.float32)
    to.flags.writeable = False
    with pytest.raises(TypeError, match="expected"):
        guided_upsample(to[:4], grids(1, 4, 4, 1), np.zeros((8, 8, 3), np.uint8), to)


def fit_by_opencv(prior: Grid, colours: list[Grid], reach: float, weight: float) -> list[Any]:
    """The slopes and the drop, by blurring whole planes."""
    import cv2

    lead = 2 * prior - 1
    side = 2 * int(np.ceil(2 * reach)) + 1
    means: list[list[Any]] = []
    for ahead in (np.maximum(lead, 0), np.maximum(-lead, 0)):
        certain = ahead * ahead + np.float32(1e-4)
        planes = [certain, *(each * certain for each in colours)]
        total, *rest = (cv2.GaussianBlur(each, (side, side), reach) for each in planes)
        means.append([each / total for each in rest])
    ours, theirs = np.array(means)
    towards = ours - theirs
    length = (towards * towards).sum(axis=0)
    said = 4 * weight * (prior - prior * prior) * length
    said = np.where(said > 1e-4, said, 0)
    gain = said / (said + 1)
    slopes = towards * gain / (length + 1e-6)
    return [*slopes, gain * prior + (slopes * theirs).sum(axis=0)]


@pytest.mark.parametrize("size", [(128, 128), (7, 33), (2, 5), (1, 1), (90, 1)])
@pytest.mark.parametrize("planes", [1, 3])
def test_a_fit_is_what_blurring_gives(size: tuple[int, int], planes: int) -> None:
    import cv2

    prior, *colours = (abs(each) for each in grids(1 + planes, *size, 1))
    prior = np.asarray(cv2.GaussianBlur(prior, (9, 9), 2), np.float32).clip(0, 1)
    slopes, drop = guided_fit(prior, colours, 1.5, 3)
    assert all(each.shape == size and each.dtype == np.float32 for each in (*slopes, drop))
    expected = fit_by_opencv(prior, colours, 1.5, 3)
    for got, wanted in zip([*slopes, drop], expected, strict=True):
        np.testing.assert_allclose(got, wanted, atol=2e-4)


def test_colours_sharpen_a_soft_edge() -> None:
    inside = np.zeros((40, 40), np.float32)
    inside[:, 17:] = 1
    ramp = np.clip((np.arange(40) - 12) / 10, 0, 1)
    prior = np.asarray(np.tile(ramp, (40, 1)), np.float32)
    colour = np.float32(0.2) + np.float32(0.6) * inside
    (slope,), drop = guided_fit(prior, [colour], 3, 8)
    opacity = prior - drop + slope * colour
    wrong = [np.abs(each - inside).mean() for each in (prior, opacity)]
    assert wrong[1] < 0.4 * wrong[0]


def test_a_fit_says_what_does_not_fit() -> None:
    prior, colour, small = (grids(1, *size, 1)[0] for size in ((8, 9), (8, 9), (7, 9)))
    for colours in ([], [small], [colour] * 4, [colour, small]):
        with pytest.raises(ShapeError, match="planes"):
            guided_fit(prior, colours, 1, 1)
    for reach in (0, -1, float("nan"), 1e9):
        with pytest.raises(ShapeError, match="reach"):
            guided_fit(prior, [colour], reach, 1)
    wide: Any = np.asarray(colour, np.float64)
    with pytest.raises(TypeError):
        guided_fit(prior, [wide], 1, 1)
