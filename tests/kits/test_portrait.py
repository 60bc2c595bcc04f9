import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import engine, kits
from palmkit.engine.errors import ImageError, ModelError
from palmkit.engine.ir import Node, Type
from palmkit.kits import HairSegmenter, Mask, PortraitSegmenter
from palmkit.kits.image import Image, resize
from palmkit.kits.kit import shipped_model
from palmkit.kits.portrait.compose import Backdrop, composite, cover, cutout, foreground
from palmkit.kits.portrait.refine import enlarge, opacity, refine, without_specks
from palmkit.kits.portrait.steady import Steady
from palmkit.kits.portrait.views import square_round
from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.conftest import Blobs, picture

SIDE = 64
RED = (200, 30, 30)


class Reds:
    """Takes for a person what is red; says so at 64 x 64, blurred like a network's edges."""

    metadata: Mapping[str, str] = {}

    def __init__(self, noise: float = 0) -> None:
        self.inputs = {"image": Type("float32", (1, SIDE, SIDE, 3))}
        self.views: list[NDArray[np.float32]] = []
        self._noise = noise
        self._random = np.random.default_rng(0)

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        import cv2

        image = inputs["image"]
        assert image.dtype == np.float32 and image.shape == (1, SIDE, SIDE, 3)
        self.views.append(image[0])
        red = np.clip((image[0, :, :, 0] - image[0, :, :, 1]) / 170, 0, 1)
        red = np.asarray(cv2.GaussianBlur(red, (0, 0), 0.8))
        red = red + self._noise * self._random.standard_normal(red.shape)
        return {"mask": np.clip(red, 0, 1).astype(np.float32)[None, :, :, None]}


@pytest.fixture
def reds() -> Reds:
    return Reds()


def scene(height: int = 240, width: int = 320, shift: int = 0) -> tuple[Image, NDArray[np.bool_]]:
    """A red disc on a gray ramp, and where it is."""
    y, x = np.mgrid[:height, :width] + 0.5
    inside = (x - width / 2 - shift) ** 2 + (y - height / 2) ** 2 < (0.3 * height) ** 2
    ramp = np.repeat((120 + 100 * x / width)[..., None], 3, axis=2)
    return np.where(inside[..., None], RED, ramp).astype(np.uint8), inside


def iou(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float((a & b).sum() / (a | b).sum())


@pytest.mark.parametrize(
    ("height", "width"), [(240, 320), (333, 211), (64, 64), (1200, 1600), (40, 30), (1500, 90)]
)
def test_the_mask_has_the_size_of_the_picture(reds: Reds, height: int, width: int) -> None:
    image, inside = scene(height, width)
    found = PortraitSegmenter(model=reds).segment(image)
    assert (found.width, found.height) == (width, height)
    assert found.mask.shape == (height, width) and found.mask.dtype == np.float32
    assert found.mask.min() >= 0 and found.mask.max() <= 1
    assert found.alpha.shape == (height, width) and found.alpha.dtype == np.float32
    if min(height, width) >= 64 and inside.any(axis=0).sum() < width:
        assert iou(found.mask > 0.5, inside) > 0.93
        assert found.coverage == pytest.approx(inside.mean(), rel=0.08)


def test_edges_are_those_of_the_picture(reds: Reds) -> None:
    """From 64 x 64, an edge between colours is found to a pixel of 640 x 480."""
    image, inside = scene(480, 640)
    plain = PortraitSegmenter(model=reds, refine=False).segment(image)
    fitted = PortraitSegmenter(model=reds).segment(image)
    wrong = 1 - iou(plain.mask > 0.5, inside)
    assert 1 - iou(fitted.mask > 0.5, inside) < 0.2 * wrong
    assert 1 - iou(fitted.alpha > 0.5, inside) < 0.2 * wrong
    assert np.abs(fitted.alpha - inside).mean() < 0.5 * np.abs(plain.mask - inside).mean()


def small_disc() -> tuple[Image, NDArray[np.bool_]]:
    """Someone small, off the middle."""
    y, x = np.mgrid[:480, :640] + 0.5
    inside = (x - 480) ** 2 + (y - 150) ** 2 < 40**2
    return np.where(inside[..., None], RED, (120, 120, 120)).astype(np.uint8), inside


def test_the_second_look_is_at_the_people_alone_and_mirrored(reds: Reds) -> None:
    image, inside = small_disc()
    half = image.copy()
    half[150:, 480:] //= 2
    PortraitSegmenter(model=reds).segment(half)
    first, second = reds.views
    seen = [(view[..., 0] - view[..., 1] > 40).mean() for view in (first, second)]
    assert seen[1] > 10 * seen[0]
    # The darker quarter, right and low in the picture, lies left and low here.
    dark = (second[..., 0] > 90) & (second[..., 0] < 110) & (second[..., 1] < 20)
    rows, columns = np.nonzero(dark)
    assert rows.mean() > SIDE / 2 and columns.mean() < SIDE / 2
    found = PortraitSegmenter(model=reds, refine=False).segment(image).mask
    reds.views.clear()
    once = PortraitSegmenter(model=reds, refine=False, second_look=False).segment(image).mask
    assert len(reds.views) == 1
    assert 1 - iou(found > 0.5, inside) < 0.6 * (1 - iou(once > 0.5, inside))


def test_further_people_are_in_both_looks(reds: Reds) -> None:
    boxes = ((0, 10, 80, 50), (300, 200, 90, 40))
    image = np.full((300, 400, 3), 120, np.uint8)
    for left, top, width, height in boxes:
        image[top : top + height, left : left + width] = RED
    mask = PortraitSegmenter(model=reds).segment(image).mask
    assert iou(mask > 0.5, image[..., 0] == RED[0]) > 0.95


def test_people_who_fill_the_picture_are_looked_at_whole_again(reds: Reds) -> None:
    image = np.full((480, 640, 3), 120, np.uint8)
    image[75:, :320] = RED
    image[75:, 320:] = (230, 30, 30)
    PortraitSegmenter(model=reds).segment(image)
    image[:130] = 120
    PortraitSegmenter(model=reds).segment(image)
    whole, mirrored, all_of_it, part = (view[..., 0] > 150 for view in reds.views)
    assert (mirrored == whole[:, ::-1]).all()
    assert part.mean() > 1.05 * all_of_it.mean()


def test_frames_of_videos_and_pictures_without_people_are_looked_at_once(reds: Reds) -> None:
    image, _ = small_disc()
    PortraitSegmenter("video", model=reds).segment(image)
    assert len(reds.views) == 1
    PortraitSegmenter(model=reds).segment(np.full_like(image, 120))
    assert len(reds.views) == 2


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (700, 3), (899, 1201), (896, 448)])
def test_any_part_of_any_picture_is_looked_at_again(reds: Reds, size: tuple[int, int]) -> None:
    for part in (slice(None), slice(-1, None), slice(0, 1)):
        image = np.full((*size, 3), 120, np.uint8)
        image[part, part] = RED
        mask = PortraitSegmenter(model=reds).segment(image).mask
        assert mask.shape == size and mask.min() >= 0 and mask.max() <= 1


@pytest.mark.parametrize("size", [(1, 90), (90, 1)])
def test_a_mirrored_line_is_a_picture_too(reds: Reds, size: tuple[int, int]) -> None:
    line = scene(*size)[0]
    for mirrored in (line[::-1], line[:, ::-1]):
        found = PortraitSegmenter(model=reds).segment(mirrored).mask
        assert (found == PortraitSegmenter(model=reds).segment(mirrored.copy()).mask).all()


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
    """As far as three pixels of half the resolution, and more softly to the fifth."""
    mask = np.full((side, side), 0.4, np.float32)
    mask[20:80, 20:60] = 0.9
    mask[60:64, 80:84] = 0.8
    found = without_specks(mask)
    assert found is not mask and mask[62, 82] == np.float32(0.8)
    assert found[60:64, 80:84].max() < 0.2 and found[58:66, 78:86].max() < 0.2
    far = np.ones(mask.shape, bool)
    far[47:78, 67:98] = False
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


def test_nobody_gives_an_empty_mask(reds: Reds) -> None:
    found = PortraitSegmenter(model=reds, background="blur").segment(picture(120, 160))
    assert found.coverage == 0 and not found.mask.any() and not found.alpha.any()
    assert found.picture is not None and found.picture.shape == (120, 160, 3)
    grey = PortraitSegmenter(model=reds).segment(np.full((50, 40), 128, np.uint8))
    assert grey.coverage == 0


def test_what_is_read(reds: Reds, tmp_path: Path) -> None:
    """Turned, mirrored, with an alpha channel, and turned by EXIF."""
    import PIL.Image

    image, _ = scene(120, 200, shift=-40)
    segmenter = PortraitSegmenter(model=reds)
    upright = segmenter.segment(image).mask
    rotated = segmenter.segment(np.rot90(image), rotation=90)
    assert (rotated.mask == upright).all() and (rotated.image == image).all()
    rgba = np.dstack([image, np.zeros(image.shape[:2], np.uint8)])
    assert (segmenter.segment(rgba).mask == upright).all()
    assert (segmenter.segment(image[..., ::-1], format="bgr").mask == upright).all()
    mirrored = segmenter.segment(image, flip="horizontal").mask
    assert iou(mirrored > 0.5, upright[:, ::-1] > 0.5) > 0.98
    lying = PIL.Image.fromarray(np.rot90(image))
    exif = lying.getexif()
    exif[0x0112] = 6
    lying.save(tmp_path / "turned.png", exif=exif)
    assert segmenter.segment(tmp_path / "turned.png").mask.shape == (120, 200)
    assert (segmenter.segment(tmp_path / "turned.png").mask == upright).all()


@pytest.mark.parametrize("source", ["none.jpg", b"", b"text", np.zeros((0, 4, 3), np.uint8), 3])
def test_what_is_no_picture(reds: Reds, source: Any) -> None:
    with pytest.raises(ImageError):
        PortraitSegmenter(model=reds).segment(source)


def test_roi_is_looked_at_alone(reds: Reds) -> None:
    image = picture(200, 300, (0, 20, 60, 60), (0, 200, 60, 60))
    found = PortraitSegmenter(model=reds).segment(image, roi=(150, 0, 150, 200)).mask
    assert not found[:, :150].any()
    assert iou(found[:, 150:] > 0.5, image[:, 150:, 0] > 0) > 0.95
    with pytest.raises(ImageError, match="roi: lies outside"):
        PortraitSegmenter(model=reds).segment(image, roi=(400, 0, 9, 9))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "film"}, "mode: expected one of"),
        ({"threads": 0}, "threads: expected a whole number, at least 1"),
        ({"precision": "exact"}, "precision: expected one of"),
        ({"background": "#12345"}, "background: expected a colour like #1e90ff, got '#12345'"),
        ({"background": (1, 2)}, "background: expected red, green, blue in 0..255"),
        ({"background": (1, 2, 300)}, "background: expected red, green, blue in 0..255"),
        ({"background": 0}, "background: expected a blur of 0 to 10000 pixels, got 0"),
        ({"background": float("nan")}, "background: expected a blur"),
        ({"mode": "stream"}, "on_result: expected in stream mode"),
    ],
)
def test_options_that_cannot_be(reds: Reds, options: Any, message: str) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match=message):
        PortraitSegmenter(model=reds, **options)
    assert threading.active_count() == before


def test_a_background_that_is_no_picture(reds: Reds) -> None:
    with pytest.raises(ImageError, match="no such file: beach.jpg"):
        PortraitSegmenter(model=reds, background="beach.jpg")


def test_another_model_is_refused() -> None:
    model = Reds()
    model.inputs = {"image": Type("float32", (1, "height", "width", 3))}
    with pytest.raises(ModelError, match="input image: expected"):
        PortraitSegmenter(model=model)

    class Two(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"mask": np.zeros((1, SIDE, SIDE, 2), np.float32)}

    with pytest.raises(ModelError, match="output mask: expected"):
        PortraitSegmenter(model=Two()).segment(picture(20, 20))


def test_numbers_that_are_none_are_nobody() -> None:
    class Broken(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"mask": np.full((1, SIDE, SIDE, 1), np.nan, np.float32)}

    assert PortraitSegmenter(model=Broken()).segment(picture(50, 60)).coverage == 0


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


def test_result_of_the_json(reds: Reds) -> None:
    image, inside = scene()
    found = PortraitSegmenter(model=reds).segment(image)
    assert found.to_dict() == {
        "width": 320,
        "height": 240,
        "mask": None,
        "coverage": pytest.approx(inside.mean(), abs=0.01),
    }
    assert found.to_dict(Path("mask.png"))["mask"] == "mask.png"
    assert found.picture is None
    assert (found.gray() == np.rint(found.mask * 255)).mean() > 0.99


def test_flicker_is_held_and_motion_followed() -> None:
    image, inside = scene()
    far = ~inside & (np.abs(np.indices(inside.shape)[1] - 160) > 100)

    def flicker(smoothing: bool) -> float:
        segmenter = PortraitSegmenter("video", model=Reds(0.15), smoothing=smoothing)
        masks = [segmenter.segment(image).mask for _ in range(30)][10:]
        return float(np.abs(np.diff(np.array(masks), axis=0))[:, far].mean())

    assert flicker(True) < 0.25 * flicker(False)
    segmenter = PortraitSegmenter("video", model=Reds())
    for step in range(12):
        moved, where = scene(shift=12 * step - 60)
        assert iou(segmenter.segment(moved).mask > 0.5, where) > 0.93


def test_a_cut_and_reset_forget() -> None:
    dark, light = np.zeros((32, 32, 3), np.uint8), np.full((32, 32, 3), 200, np.uint8)
    nothing, all_of_it = np.zeros((32, 32), np.float32), np.ones((32, 32), np.float32)
    view = (0.0, 0.0, 32.0, 32.0)
    steady = Steady()
    steady.update(nothing, dark, view, 0.1)
    assert (steady.update(all_of_it, light, view, 0.2) == 1).all()
    kept = steady.update(nothing, light, view, 0.2 + 1 / 30)
    assert 0.5 < kept.min() < 1
    later = steady.update(nothing, light, view, 2.0)
    assert later.max() < 0.01
    segmenter = PortraitSegmenter("video", model=Reds())
    image, _ = scene()
    first = segmenter.segment(image).mask
    segmenter.segment(image // 2 + 20)
    segmenter.reset()
    assert (segmenter.segment(image).mask == first).all()


def test_a_mask_moves_with_its_view() -> None:
    """What was seen in one square is found again in another of the same frame."""
    steady = Steady()
    still = np.full((40, 40, 3), 90, np.uint8)
    mask = np.zeros((40, 40), np.float32)
    mask[:, 20:] = 1
    steady.update(mask, still, (0, 0, 40, 40), 0.1)
    moved = steady.update(np.zeros((40, 40), np.float32), still, (10, 0, 40, 40), 0.1 + 1e-6)
    assert (moved[:, :9] < 0.01).all() and (moved[:, 11:] > 0.99).all()


def test_stream(reds: Reds) -> None:
    image, inside = scene()
    found: list[Mask] = []
    with PortraitSegmenter(
        "stream", model=reds, on_result=lambda mask, frame, _: found.append(mask)
    ) as segmenter:
        for _ in range(5):
            segmenter.submit(image)
        with pytest.raises(RuntimeError, match="use submit"):
            segmenter.segment(image)
    assert 1 <= len(found) <= 5 and len(found) + segmenter.dropped == 5
    assert iou(found[-1].mask > 0.5, inside) > 0.93
    with pytest.raises(RuntimeError, match="portrait segmenter is closed"):
        segmenter.submit(image)


def test_hair_is_looked_for_round_each_face(reds: Reds) -> None:
    """The face detector's stand-in takes green and blue squares for faces."""
    image = picture(300, 600, (1, 100, 120, 60), (2, 420, 120, 60))
    image[90:120, 100:160, 0] = image[90:120, 420:480, 0] = 120
    image[10:30, 290:310, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs()).segment(image)
    assert len(reds.views) == 2
    assert found.mask[95:115, 105:155].min() > 0.5 and found.mask[95:115, 425:475].min() > 0.5
    # Out of reach of both faces: a square of 3.5 sides round each.
    assert not found.mask[:, 260:320].any()
    reds.views.clear()
    one = HairSegmenter(model=reds, face_model=Blobs(), max_faces=1).segment(image)
    assert len(reds.views) == 1 and one.coverage < 0.7 * found.coverage


def test_hair_without_a_face_is_looked_for_everywhere(reds: Reds) -> None:
    image, inside = scene()
    dim = (image // 12).astype(np.uint8)
    found = HairSegmenter(model=reds, face_model=Blobs(threshold="0.99")).segment(image)
    assert iou(found.mask > 0.5, inside) > 0.93
    assert HairSegmenter(model=reds, face_model=Blobs()).segment(dim).coverage == 0


def test_the_square_round_a_face_may_reach_out_of_the_picture(reds: Reds) -> None:
    image = picture(150, 300, (1, 0, 10, 100))
    image[110:130, :100, 0] = 120
    found = HairSegmenter(model=reds, face_model=Blobs()).segment(image)
    assert iou(found.mask > 0.4, image[..., 0] > 0) > 0.8
    rows = np.flatnonzero(reds.views[0].any(axis=(1, 2)))
    assert rows[0] >= 5 and rows[-1] < 0.75 * SIDE


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((200, 200, 40, 60), (115, 131, 210, 210)),
        ((0, 0, 40, 60), (0, 0, 210, 210)),
        ((560, 420, 40, 60), (390, 270, 210, 210)),
        ((250, 100, 100, 300), (0, -20, 600, 600)),
    ],
)
def test_the_square_round_a_face(box: tuple[float, ...], expected: tuple[float, ...]) -> None:
    found = square_round(np.array(box, np.float32), 600, 480)
    assert found == pytest.approx(expected)


def test_hair_in_a_video_follows_the_face() -> None:
    segmenter = HairSegmenter("video", model=Reds(), face_model=Blobs())
    for step in range(10):
        image = picture(300, 500, (1, 100 + 10 * step, 120, 60))
        image[90:120, 100 + 10 * step : 160 + 10 * step, 0] = 120
        found = segmenter.segment(image).mask
        assert iou(found > 0.4, image[..., 0] > 0) > 0.75
    segmenter.reset()
    assert segmenter.segment(picture(300, 500)).coverage == 0


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real .palm model: what is red and not green is a person."""
    graph = engine.Graph(
        {"image": Type("float32", (1, SIDE, SIDE, 3))},
        {"mask": Type("float32", (1, SIDE, SIDE, 1))},
        (
            Node("transpose", ("image",), ("nchw",), {"perm": (0, 3, 1, 2)}),
            Node("conv", ("nchw", "weight"), ("red",)),
            Node("clip", ("red", "zero", "one"), ("clipped",)),
            Node("transpose", ("clipped",), ("mask",), {"perm": (0, 2, 3, 1)}),
        ),
        {
            "weight": np.array([[[[1 / 170]], [[-1 / 170]], [[0]]]], np.float32),
            "zero": np.array(0, np.float32),
            "one": np.array(1, np.float32),
        },
    )
    path = tmp_path_factory.mktemp("model") / "reds.palm"
    engine.save(graph, path)
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    kits.write_image(tmp_path / "a.png", scene()[0])
    return tmp_path / "a.png"


def test_command_writes_the_mask(run: Any, model_path: Path, source: Path) -> None:
    target = source.parent / "out" / "mask.png"
    result = run("portrait", source, "--model", model_path, "-o", target, "--json")
    assert (result.code, result.err) == (0, "")
    (found,) = result.lines
    assert list(found) == ["width", "height", "mask", "coverage"]
    assert found["mask"] == str(target)
    import PIL.Image

    with PIL.Image.open(target) as written:
        assert written.mode == "L" and written.size == (320, 240)
        assert iou(np.asarray(written) > 127, scene()[1]) > 0.95
    result = run("portrait", source, "--model", model_path)
    assert result.out == f"{source}: 21 % of the pixels\n"


def test_command_backgrounds(run: Any, model_path: Path, source: Path) -> None:
    folder = source.parent
    kits.write_image(folder / "beach.png", np.full((50, 90, 3), (0, 0, 255), np.uint8))
    for background, name in (
        ("#0000ff", "colour.png"),
        (folder / "beach.png", "picture.png"),
        ("blur", "blur.png"),
        ("blur=2.5", "less.jpg"),
    ):
        options = ("--background", background, "-o", folder / name, "--json")
        result = run("portrait", source, "--model", model_path, *options)
        assert result.code == 0, result.err
        assert result.lines[0]["mask"] is None
        assert result.lines[0]["picture"] == str(folder / name)
    colour, other = kits.read_image(folder / "colour.png"), kits.read_image(folder / "picture.png")
    assert (colour == other).all() and (colour[5, 5] == (0, 0, 255)).all()
    assert np.abs(colour[120, 160].astype(int) - RED).max() <= 1
    result = run(
        "portrait",
        source,
        "--model",
        model_path,
        "--background",
        "transparent",
        "-o",
        f"{folder}/d/",
    )
    assert result.code == 0
    import PIL.Image

    with PIL.Image.open(folder / "d" / "a.png") as cut:
        assert cut.mode == "RGBA" and np.asarray(cut)[5, 5, 3] == 0
    shown = run("portrait", source, "--model", model_path, "--overlay", "-o", folder / "o.png")
    assert shown.code == 0 and kits.read_image(folder / "o.png").shape == (240, 320, 3)


@pytest.mark.parametrize(
    ("background", "code", "message"),
    [
        ("#12", 2, "--background: expected a colour like #1e90ff"),
        ("blur=much", 2, "--background: expected a number of pixels"),
        ("none.png", 1, "no such file: none.png"),
    ],
)
def test_command_with_a_bad_background(
    run: Any, model_path: Path, source: Path, background: str, code: int, message: str
) -> None:
    result = run("portrait", source, "--model", model_path, "--background", background)
    assert result.code == code and message in result.err


def test_command_folder_of_masks(run: Any, model_path: Path, source: Path) -> None:
    (source.parent / "in").mkdir()
    kits.write_image(source.parent / "in" / "b.jpg", scene()[0])
    out = source.parent / "masks"
    result = run("portrait", source.parent / "in", "--model", model_path, "-o", out, "--json")
    assert result.code == 0 and result.lines[0]["mask"] == str(out / "b.png")


def test_command_videos(run: Any, model_path: Path, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "in.mp4", 25) as writer:
        for step in range(6):
            writer.write(scene(shift=5 * step)[0])
    for name, options in (("mask.mp4", ()), ("blue.mp4", ("--background", "#0000ff"))):
        target = tmp_path / name
        result = run("portrait", tmp_path / "in.mp4", "--model", model_path, "-o", target, *options)
        assert result.code == 0, result.err
        with VideoReader(target) as video:
            frames = [frame for frame, _ in video]
        assert len(frames) == 6 and frames[0].shape == (240, 320, 3)
    assert frames[0][5, 5, 2] > 200 and frames[0][5, 5, 0] < 40
    result = run(
        "portrait",
        tmp_path / "in.mp4",
        "--model",
        model_path,
        "--background",
        "transparent",
        "-o",
        tmp_path / "cut.mp4",
    )
    assert result.code == 1 and "video frame: expected uint8[h, w, 3]" in result.err
    assert not (tmp_path / "cut.mp4").exists()


def test_command_hair(run: Any, model_path: Path, red_model: Path, source: Path) -> None:
    options = ("--model", model_path, "--face-model", red_model, "--json", "--max-faces", 2)
    result = run("hair", source, *options)
    assert result.code == 0 and result.lines[0]["coverage"] > 0.1


def test_overlay_tints_and_outlines(reds: Reds) -> None:
    image, _ = scene()
    found = PortraitSegmenter(model=reds).segment(image)
    drawn = kits.draw.mask(image, found)
    assert (drawn[:40, :40] == image[:40, :40]).all()
    assert np.abs(drawn[120, 160].astype(int) - (np.array(RED) + kits.draw.ACCENT) / 2).max() <= 2
    with pytest.raises(ImageError, match="draw mask: expected"):
        kits.draw.mask(image[:100], found)


@pytest.mark.parametrize("name", ["portrait", "hair"])
def test_the_models_shipped_on_a_photograph(name: str) -> None:
    import skimage.data

    if not shipped_model(name).is_file():
        pytest.skip(f"models/{name}/{name}.palm has not been made here")
    photo = kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]
    kit = PortraitSegmenter() if name == "portrait" else HairSegmenter()
    found = kit.segment(photo)
    hair, face, wall = (20, 225), (110, 222), (60, 330)
    assert found.mask[hair] > 0.8 and found.mask[wall] < 0.2
    assert found.mask[face] > 0.8 if name == "portrait" else found.mask[face] < 0.2
    assert (0.35 if name == "portrait" else 0.02) < found.coverage < 0.65
    assert kit.segment(np.full((120, 160, 3), 140, np.uint8)).coverage < 0.02


def test_a_large_picture_needs_little_memory(reds: Reds) -> None:
    """Beside the picture and the mask, less than another two masks at a time."""
    import tracemalloc

    image, _ = scene(1500, 2000)
    segmenter = PortraitSegmenter(model=reds)
    segmenter.segment(image)
    tracemalloc.start()
    found = segmenter.segment(image)
    assert tracemalloc.get_traced_memory()[1] < 3.2 * found.mask.nbytes
    assert found.alpha.any()
    tracemalloc.reset_peak()
    found.composite("blur")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * found.mask.nbytes + 6 * image.nbytes
