"""Masks in C are those of Python: cleaned, steadied, enlarged to edges, as opacity."""

from ctypes import byref, c_int32

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image, resize
from palmkit.kits.portrait import refine
from palmkit.kits.portrait.steady import Steady
from tests.kits.drawn_portraits import scene
from tests.kits.native import library
from tests.kits.native.library import Library

Mask = NDArray[np.float32]
# Python's kernels fuse products and sums; a slope of a colour counts up to 255 of these.
OFF = 2e-4


def coarse_of(image: Image, height: int, width: int) -> Mask:
    """Return a network's mask of what is red, or bright."""
    small = resize(image, height, width).astype(np.float32)
    blurred = cv2.GaussianBlur(small, (0, 0), 1.5)
    return np.clip((blurred[:, :, 0] - blurred[:, :, 1]) / 90 + 0.2, 0, 1).astype(np.float32)


def mask_of(mask: Mask) -> library.Mask:
    return library.Mask(mask.ctypes.data, mask.strides[0], mask.shape[1], mask.shape[0])


@pytest.mark.parametrize("shape", [(480, 640), (301, 257), (64, 200)])
@pytest.mark.parametrize("side", [(256, 256), (131, 97)])
@pytest.mark.parametrize("refined", [0, 1])
def test_enlarging(
    c: Library, astronaut: Image, shape: tuple[int, int], side: tuple[int, int], refined: int
) -> None:
    image = resize(astronaut, *shape)
    coarse = coarse_of(image, *side)
    expected = refine.refine(image, coarse) if refined else refine.enlarge(coarse, image)
    wide = np.full((shape[0], shape[1] + 3), -1, np.float32)
    ours = wide[:, : shape[1]]
    given, kept = library.image(image)
    height, width = (c_int32(each) for each in side)
    c.call(
        "mask_enlarge",
        byref(given),
        coarse,
        width,
        height,
        c_int32(refined),
        byref(mask_of(ours)),
    )
    np.testing.assert_allclose(ours, expected, rtol=0, atol=OFF)
    assert (wide[:, shape[1] :] == -1).all() and kept.size


@pytest.mark.parametrize("shape", [(512, 512), (700, 431), (200, 120), (2300, 1200)])
def test_opacity(c: Library, astronaut: Image, shape: tuple[int, int]) -> None:
    image = resize(astronaut, *shape)
    mask = refine.refine(image, coarse_of(image, 256, 256))
    mask[:, : shape[1] // 8] = 0
    expected = refine.opacity(image, mask)
    assert 0.05 < expected.mean() < 0.95
    ours = np.full(shape, -1, np.float32)
    given, kept = library.image(image)
    c.call("mask_opacity", byref(given), byref(mask_of(mask)), byref(mask_of(ours)))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=OFF)
    assert kept.size


def test_opacity_of_nothing(c: Library, astronaut: Image) -> None:
    mask, ours = np.zeros((512, 512), np.float32), np.ones((512, 512), np.float32)
    given, kept = library.image(astronaut)
    c.call("mask_opacity", byref(given), byref(mask_of(mask)), byref(mask_of(ours)))
    assert not ours.any() and kept.size


@pytest.mark.parametrize("seed", range(6))
def test_specks_fade(c: Library, seed: int) -> None:
    rng = np.random.default_rng(seed)
    coarse = np.zeros((250, 256), np.float32)
    cv2.circle(coarse, (120, 130), 60, 1.0, -1)
    for _ in range(rng.integers(1, 9)):
        at = rng.integers(0, 256, 2).tolist()
        cv2.circle(coarse, at, int(rng.integers(1, 12)), 1.0, -1)
    coarse = np.asarray(cv2.GaussianBlur(coarse, (0, 0), 1.5), np.float32)
    ours, expected = coarse.copy(), refine.without_specks(coarse)
    c.call("mask_clean", ours, c_int32(256), c_int32(250))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
    assert seed or not np.array_equal(ours, coarse)


@pytest.mark.parametrize("moves", [False, True])
def test_masks_of_a_video(c: Library, moves: bool) -> None:
    """moves: the view does, as that of hair does with the face."""
    python, ours, rng = Steady(), c.made("mask_filter"), np.random.default_rng(0)
    for frame in range(30):
        image, _ = scene(256, 256, shift=2 * frame if frame > 10 else 0)
        if frame == 25:
            image = 255 - image
        noise = rng.normal(0, 3, image.shape)
        small = np.clip(image + noise, 0, 255).astype(np.uint8)
        coarse = np.clip(coarse_of(small, 256, 256) + rng.normal(0, 0.05), 0, 1).astype(np.float32)
        view = (10.0 + 0.7 * frame * moves, 20.0, 200.0 + frame * moves, 200.0 + frame * moves)
        expected = python.update(coarse.copy(), small, view, frame / 30 + 1)
        given, kept = library.image(small)
        ours("run", coarse, byref(given), byref(library.Part(*view)), frame / 30 + 1)
        np.testing.assert_allclose(coarse, expected, rtol=0, atol=1e-5)
        assert kept.size
