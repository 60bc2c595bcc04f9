import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image, resize
from palmkit.kits.portrait.refine import enlarge, opacity, refine, without_specks
from tests.kits.drawn_portraits import scene


def test_where_colours_say_nothing_the_network_stands() -> None:
    random = np.random.default_rng(1)
    image = random.integers(90, 110, (120, 160, 3)).astype(np.uint8)
    coarse = np.zeros((32, 32), np.float32)
    coarse[8:24, 8:24] = 1
    assert np.abs(refine(image, coarse) - enlarge(coarse, image)).max() < 0.1


def test_certain_masks_stay_certain() -> None:
    image = np.random.default_rng(2).integers(0, 256, (90, 70, 3)).astype(np.uint8)
    for value in (0.0, 1.0):
        assert (refine(image, np.full((32, 32), value, np.float32)) == value).all()
        assert (opacity(image, np.full((90, 70), value, np.float32)) == value).all()


@pytest.mark.parametrize("size", [(480, 640), (256, 256), (481, 333), (70, 1000)])
def test_only_a_part_is_looked_at_and_none_is_missed(size: tuple[int, int]) -> None:
    import cv2

    from palmkit.kits.portrait import refine as module

    random = np.random.default_rng(5)
    noise = random.integers(0, 256, (40, 40, 3), np.uint8)
    image = np.asarray(cv2.resize(noise, size[::-1]), np.uint8)
    rows, columns = np.mgrid[:256, :256]
    distance = np.hypot(rows - 130, columns - 90)
    coarse = (1 / (1 + np.exp((distance - 50) / 2))).astype(np.float32)
    seen: list[NDArray[np.float32]] = []

    def whole(
        offset: NDArray[np.float32],
        slopes: list[NDArray[np.float32]],
        image: Image,
        to: NDArray[np.float32],
    ) -> None:
        seen.extend(slopes)
        gray = np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
        term = np.asarray(cv2.resize(slopes[0], size[::-1]), np.float32) * gray
        to[:] = np.asarray(cv2.resize(offset, size[::-1]), np.float32) + term
        np.clip(to, 0, 1, out=to)

    part = refine(image, coarse)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "guided_upsample", whole)
        assert np.abs(part - refine(image, coarse)).max() < 1e-5
    assert len(seen) == 1 and 0.02 < np.count_nonzero(seen[0]) / seen[0].size < 0.5


@pytest.mark.parametrize("size", [(480, 640), (300, 211), (20, 30)])
def test_a_mask_may_be_written_into_a_part_of_another(size: tuple[int, int]) -> None:
    image, inside = scene(*size)
    filled = inside.astype(np.uint8)[..., None].repeat(3, axis=2)
    coarse = resize(filled, 64, 64)[..., 0].astype(np.float32)
    for refined in (True, False):
        whole = np.full((size[0] + 4, size[1] + 6), 7, np.float32)
        to = whole[1:-3, 2:-4]
        if refined:
            made, alone = refine(image, coarse, None, to), refine(image, coarse)
        else:
            made, alone = enlarge(coarse, image, to), enlarge(coarse, image)
        assert (to == alone).all() and (made == alone).all()
        assert (whole == 7).sum() == whole.size - to.size


def test_specks_are_left_out_and_further_people_are_not() -> None:
    mask = np.zeros((100, 100), np.float32)
    mask[20:80, 20:60] = 0.9
    mask[10:24, 80:94] = 0.9
    mask[60:63, 80:83] = 0.8
    found = without_specks(mask)
    assert (found[:55] == mask[:55]).all() and (found[:, :70] == mask[:, :70]).all()
    assert found[60:63, 80:83].max() < 0.2
    assert (without_specks(mask[:50]) == mask[:50]).all()
    nothing = np.zeros((10, 10), np.float32)
    assert (without_specks(nothing) == 0).all()


@pytest.mark.parametrize("side", [100, 101])
def test_what_surrounds_a_speck_fades_with_it(side: int) -> None:
    """As far as a block of four pixels, and more softly to the third."""
    mask = np.full((side, side), 0.4, np.float32)
    mask[20:80, 20:60] = 0.9
    mask[60:64, 80:84] = 0.8
    found = without_specks(mask)
    assert found is not mask and mask[62, 82] == np.float32(0.8)
    assert found[60:64, 80:84].max() < 0.2 and found[58:66, 78:86].max() < 0.2
    far = np.ones(mask.shape, bool)
    far[46:78, 66:98] = False
    assert (found[far] == mask[far]).all()
    assert (found <= mask).all()


def test_opacity_of_fine_hair() -> None:
    """Single dark hairs on a light ground, which the mask knows only as a haze."""
    import cv2

    random = np.random.default_rng(3)
    truth = np.zeros((600, 600), np.float32)
    truth[:, :180] = 1
    for y in range(4, 600, 13):
        end = (int(random.integers(200, 220)), int(y + random.integers(-8, 8)))
        cv2.line(truth, (170, y), end, 1.0, 2, cv2.LINE_AA)
    colours = truth[..., None] * (40, 30, 25) + (1 - truth[..., None]) * (200, 205, 210)
    image = (colours + random.normal(0, 3, colours.shape)).clip(0, 255).astype(np.uint8)
    haze = np.asarray(cv2.GaussianBlur(truth, (0, 0), 8), np.float32)
    alpha = opacity(image, haze)
    band = slice(182, 215)
    assert np.abs(alpha - truth)[:, band].mean() < 0.5 * np.abs(haze - truth)[:, band].mean()


def test_opacity_of_large_pictures_follows_what_the_small_mask_cannot_show() -> None:
    """A wavy outline between patches of different colours, in a mask that is five times smaller."""
    import cv2

    side, patch = 1400, 80
    random = np.random.default_rng(4)
    rows, columns = np.mgrid[:side, :side] - side / 2
    radius = np.hypot(rows, columns)
    waves = 500 + 8 * np.sin(40 * np.arctan2(rows, columns))
    truth = np.asarray(np.clip(waves - radius + 0.5, 0, 1), np.float32)

    def patches(dark: tuple[int, ...], light: tuple[int, ...]) -> NDArray[np.float64]:
        count = side // patch + 1
        which = random.integers(0, 2, (count, count)).repeat(patch, 0).repeat(patch, 1)
        return np.array([dark, light], np.float64)[which[:side, :side]]

    share = truth[..., None]
    ours, theirs = patches((30, 40, 60), (70, 80, 90)), patches((150, 160, 180), (240, 220, 210))
    colours = share * ours + (1 - share) * theirs
    image = (colours + random.normal(0, 3, colours.shape)).clip(0, 255).astype(np.uint8)
    small = np.asarray(cv2.resize(truth, (256, 256), interpolation=cv2.INTER_AREA), np.float32)
    mask = np.asarray(cv2.resize(small, (side, side)), np.float32)
    band = np.abs(radius - 500) < 24
    wrong = [np.abs(each - truth)[band].mean() for each in (mask, opacity(image, mask))]
    # A mask of 256 pixels would leave .2 of what is wrong.
    assert wrong[1] < 0.16 * wrong[0]
