"""The outline of hair, whose opacity is known, and which the mask draws sharper than it is."""

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.image import Image
from palmkit.kits.tryon.canvas import Memory
from palmkit.kits.tryon.colour import to_lab
from palmkit.kits.tryon.hair import HairDye
from palmkit.kits.tryon.outline import along_outline

Floats = NDArray[np.float32]

SIDE, HAIR, SKIN = 160, (38, 28, 24), (205, 160, 135)
PLATINUM = HairDye("#d9cdb8", opacity=1.0)


def hairline(width: float, shift: float = 0.0) -> Floats:
    """Hair that thins out over `width` pixels across the middle, where `shift` moves it."""
    across = np.arange(SIDE, dtype=np.float32) - SIDE / 2 - shift
    share = np.clip(0.5 - across / max(width, 1e-3), 0, 1)
    return np.ascontiguousarray(np.broadcast_to(share, (SIDE, SIDE)), np.float32)


def photo(share: Floats, skin: tuple[int, int, int] = SKIN, noise: float = 2.0) -> Image:
    mixed = share[..., None] * np.array(HAIR) + (1 - share[..., None]) * np.array(skin)
    mixed += np.random.default_rng(3).normal(0, noise, mixed.shape)
    return np.asarray(np.clip(mixed, 0, 255), np.uint8)


@pytest.mark.parametrize("per_cm", [6.0, 12.0])
@pytest.mark.parametrize("shift", [-0.2, 0.0, 0.2])
def test_hair_thins_out_as_in_the_photo(per_cm: float, shift: float) -> None:
    truth, mask = hairline(1.2 * per_cm, shift * per_cm), hairline(1)
    found = along_outline(photo(truth), mask, per_cm)
    near = slice(int(SIDE / 2 - per_cm), int(SIDE / 2 + per_cm))
    before, after = (np.abs(each - truth)[:, near].mean() for each in (mask, found))
    assert before > 0.1
    assert after < 0.4 * before


def test_no_dark_rim_is_left_round_bleached_hair() -> None:
    truth, mask, skin = hairline(10), hairline(1), to_lab(np.full((1, 1, 3), SKIN, np.uint8))
    rims: list[float] = []
    for share in (mask, along_outline(photo(truth), mask, 8.0)):
        picture = photo(truth)
        PLATINUM.dye(picture, share, 8.0, Memory(), None)
        lightness = to_lab(picture)[..., 0].mean(axis=0)
        rims.append(float(min(skin[0, 0, 0], lightness[20:40].mean()) - lightness.min()))
    assert rims[0] > 15
    assert rims[1] < rims[0] / 3


def test_where_colours_say_nothing_the_mask_stands() -> None:
    mask = hairline(1)
    alike = photo(hairline(10), skin=HAIR)
    assert np.abs(along_outline(alike, mask, 8.0) - mask).max() < 0.05


def test_far_from_the_outline_nothing_changes() -> None:
    truth, mask, per_cm = hairline(10), hairline(1), 6.0
    picture = photo(truth)
    # A mole on the forehead, a light strand within the hair.
    picture[60:66, -20:-14], picture[60:66, 14:20] = HAIR, SKIN
    found = along_outline(picture, mask, per_cm)
    far = int(3 * per_cm)
    for rest in (slice(0, SIDE // 2 - far), slice(SIDE // 2 + far, SIDE)):
        assert np.abs(found - mask)[:, rest].max() < 0.01


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 2), (3, 3)])
@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("per_cm", [0.05, 3.0, 500.0])
def test_any_part_has_opacities(shape: tuple[int, int], value: float, per_cm: float) -> None:
    random = np.random.default_rng(1)
    picture = random.integers(0, 256, (*shape, 3), dtype=np.uint8)
    mask = np.full(shape, value, np.float32)
    found = along_outline(picture, mask, per_cm)
    assert found.shape == shape and found.dtype == np.float32
    assert np.isfinite(found).all() and found.min() >= 0 and found.max() <= 1
    assert (mask == value).all()
