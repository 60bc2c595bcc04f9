import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.portrait.compose import Backdrop, composite, cover, cutout, foreground
from tests.kits.drawn_portraits import scene


def soft_scene() -> tuple[Image, NDArray[np.float32], Image, Image]:
    """A picture mixed of a person's and a background's colours; its opacity, and both."""
    height, width = 160, 200
    y, x = np.mgrid[:height, :width]
    alpha = np.clip((50 - np.hypot(x - 100, y - 80)) / 12 + 0.5, 0, 1).astype(np.float32)
    ours = np.stack([180 + 0 * x, 90 + 0.2 * x, 60 + 0.2 * y], axis=2).astype(np.uint8)
    theirs = np.stack([20 + 0.1 * x, 160 + 0 * x, 40 + 0.3 * y], axis=2).astype(np.uint8)
    share = alpha[..., None]
    mixed = np.rint(ours * share + theirs * (1 - share)).astype(np.uint8)
    return mixed, alpha, ours, theirs


def test_colours_are_freed_of_the_old_background() -> None:
    image, alpha, ours, _ = soft_scene()
    band = (alpha > 0.1) & (alpha < 0.95)
    freed = foreground(image, alpha)
    before = np.abs(image.astype(int) - ours)[band].mean()
    after = np.abs(freed.astype(int) - ours)[band].mean()
    assert after < 0.35 * before
    assert (freed[alpha == 1] == image[alpha == 1]).all()
    assert not np.shares_memory(freed, image)


def test_composite_on_a_colour_and_a_picture() -> None:
    image, alpha, ours, _ = soft_scene()
    share = alpha[..., None]
    for background in ("#1020ff", (16, 32, 255)):
        made = composite(image, alpha, Backdrop(background))
        truth = ours * share + np.array([16, 32, 255]) * (1 - share)
        assert np.abs(made - truth).mean() < 1 and np.abs(made - truth).max() < 20
    behind = np.random.default_rng(4).integers(0, 256, image.shape).astype(np.uint8)
    made = composite(image, alpha, Backdrop(behind))
    assert (made[alpha == 0] == behind[alpha == 0]).all()
    assert (made[alpha == 1] == image[alpha == 1]).all()


def test_pictures_cover() -> None:
    wide = np.zeros((100, 400, 3), np.uint8)
    wide[:, 150:250] = 255
    assert (cover(wide, 50, 50) == 255).all()
    tall = cover(np.repeat(wide, 4, axis=0).transpose(1, 0, 2)[:, :100], 200, 200)
    assert tall.shape == (200, 200, 3)
    assert cover(wide, 7, 1000).shape == (7, 1000, 3)


@pytest.mark.parametrize("sigma", ["blur", 0.5, 3, 25.0, 400])
def test_the_blurred_background_has_no_glow_of_the_person(sigma: str | float) -> None:
    image, inside = scene()
    made = composite(image, inside.astype(np.float32), Backdrop(sigma))
    assert (made[inside] == image[inside]).all()
    red = made[..., 0].astype(int) - made[..., 1]
    assert np.abs(red[~inside]).max() <= 3
    if sigma in ("blur", 25.0, 400):
        noisy = image.copy()
        noisy[::2, ::2][~inside[::2, ::2]] = 255
        rough = composite(noisy, inside.astype(np.float32), Backdrop(sigma))
        assert rough[5:50, 5:50].std() < 0.3 * noisy[5:50, 5:50].std()


@pytest.mark.parametrize("shape", [(40, 33000), (33000, 40)])
def test_a_panorama_can_be_blurred(shape: tuple[int, int]) -> None:
    """OpenCV draws no picture of so many pixels a side in one piece."""
    image = np.random.default_rng(0).integers(0, 255, (*shape, 3), np.uint8)
    alpha = np.zeros(shape, np.float32)
    alpha[10:20, 10:20] = 1
    found = composite(image, alpha, Backdrop.of(2.0))
    part = (slice(None), slice(0, 400)) if shape[1] > shape[0] else (slice(0, 400), slice(None))
    small = composite(np.ascontiguousarray(image[part]), alpha[part], Backdrop.of(2.0))
    inner = tuple(slice(0, min(side, 300)) for side in small.shape[:2])
    np.testing.assert_allclose(found[part][inner], small[inner], atol=1)
    assert (found[10:20, 10:20] == image[10:20, 10:20]).all()


def test_cutout() -> None:
    image, alpha, ours, _ = soft_scene()
    made = cutout(image, alpha)
    assert made.shape == (*alpha.shape, 4)
    assert (made[..., 3] == np.rint(alpha * 255)).all()
    band = alpha > 0.1
    assert np.abs(made[..., :3].astype(int) - ours)[band].mean() < 4
