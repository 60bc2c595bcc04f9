import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ImageError, ModelError
from palmkit.engine.ir import Type
from palmkit.kits import HairSegmenter, PortraitSegmenter
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from palmkit.kits.portrait.parts import joined
from palmkit.kits.portrait.search import FAR_PARTS
from palmkit.kits.portrait.views import Halves, box_of_people
from tests.kits.conftest import picture
from tests.kits.drawn_portraits import RED, SIDE, Reds, iou, scene


@pytest.mark.parametrize(
    ("height", "width"), [(240, 320), (333, 211), (64, 64), (1200, 1600), (40, 30), (1500, 90)]
)
def test_the_mask_has_the_size_of_the_picture(
    reds: Reds, finder: Reds, height: int, width: int
) -> None:
    image, inside = scene(height, width)
    found = PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    assert (found.width, found.height) == (width, height)
    assert found.mask.shape == (height, width) and found.mask.dtype == np.float32
    assert found.mask.min() >= 0 and found.mask.max() <= 1
    assert found.alpha.shape == (height, width) and found.alpha.dtype == np.float32
    if min(height, width) >= 64 and inside.any(axis=0).sum() < width:
        assert iou(found.mask > 0.5, inside) > 0.93
        assert found.coverage == pytest.approx(inside.mean(), rel=0.08)


def test_edges_are_those_of_the_picture(reds: Reds, finder: Reds) -> None:
    """From 64 x 64, an edge between colours is found to a pixel of 640 x 480."""
    image, inside = scene(480, 640)
    plain = PortraitSegmenter(model=reds, finder_model=finder, refine=False).segment(image)
    fitted = PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    wrong = 1 - iou(plain.mask > 0.5, inside)
    assert 1 - iou(fitted.mask > 0.5, inside) < 0.2 * wrong
    assert 1 - iou(fitted.alpha > 0.5, inside) < 0.2 * wrong
    assert np.abs(fitted.alpha - inside).mean() < 0.5 * np.abs(plain.mask - inside).mean()


def small_disc() -> tuple[Image, NDArray[np.bool_]]:
    """Someone small, off the middle."""
    y, x = np.mgrid[:480, :640] + 0.5
    inside = (x - 480) ** 2 + (y - 150) ** 2 < 40**2
    return np.where(inside[..., None], RED, (120, 120, 120)).astype(np.uint8), inside


def test_the_second_pass_is_at_the_people_alone(reds: Reds, finder: Reds) -> None:
    image, inside = small_disc()
    half = image.copy()
    half[150:, 480:] //= 2
    PortraitSegmenter(model=reds, finder_model=finder).segment(half)
    (glance,), (look,) = finder.views, reds.views
    seen = [(view[..., 0] - view[..., 1] > 40).mean() for view in (glance, look)]
    assert seen[1] > 10 * seen[0]
    # The darker quarter lies right and low here too.
    dark = (look[..., 0] > 90) & (look[..., 0] < 110) & (look[..., 1] < 20)
    rows, columns = np.nonzero(dark)
    assert rows.mean() > SIDE / 2 and columns.mean() > SIDE / 2
    found = PortraitSegmenter(model=reds, finder_model=finder, refine=False).segment(image).mask
    finder.views.clear()
    reds.views.clear()
    one = PortraitSegmenter(model=reds, finder_model=finder, refine=False, second_pass=False)
    once = one.segment(image).mask
    assert len(reds.views) == 1 and not finder.views
    assert 1 - iou(found > 0.5, inside) < 0.6 * (1 - iou(once > 0.5, inside))


def test_the_best_quality_also_sees_all_and_mirror_images(finder: Reds) -> None:
    """A network that is less sure on one side is equally sure of both in the mean."""
    image, inside = small_disc()
    left, right = inside.copy(), inside.copy()
    left[:, 475:], right[:, :485] = False, False

    class Wrong(Reds):
        """Is less sure of what is in the left half of a view."""

        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            found = super().run(inputs)
            found["mask"][:, :, : SIDE // 2] *= 0.7
            return found

    network = Wrong()
    fast = PortraitSegmenter(model=network, finder_model=finder, refine=False)
    once = fast.segment(image).mask
    assert len(network.views) == 1
    best = PortraitSegmenter(model=network, finder_model=finder, refine=False, quality="best")
    mask = best.segment(image).mask
    whole, close, mirrored, other = network.views[1:]
    # It is round what either sees.
    views = (network, whole), (finder, finder.views[-1])
    said = (each.run({"image": view[None]})["mask"][0, ..., 0] for each, view in views)
    box = joined(*(box_of_people(mask, 640, 480) for mask in said))
    assert box is not None
    assert (close == Halves(image).part(box, SIDE)).all()
    assert (mirrored == close[:, ::-1]).all() and (other == whole[:, ::-1]).all()
    assert (whole[..., 0] > 150).mean() < 0.1 * (close[..., 0] > 150).mean()
    assert np.median(once[left]) < 0.75 and np.median(once[right]) > 0.95
    assert np.median(mask[left]) == pytest.approx(np.median(mask[right]), abs=0.04)
    network.views.clear()
    with PortraitSegmenter("video", model=network, quality="best") as frames:
        frames.segment(scene(240, 240)[0])
    assert len(network.views) == 1


def test_where_the_first_network_is_in_doubt_the_best_one_looks(finder: Reds) -> None:
    image, inside = small_disc()

    class Doubtful(Reds):
        """Is sure of nothing."""

        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {name: found * 0.7 for name, found in super().run(inputs).items()}

    def looks(first: Reds, **options: Any) -> tuple[int, int, NDArray[np.float32]]:
        first.views.clear()
        best = Reds()
        with PortraitSegmenter(
            model=first, best_model=best, finder_model=finder, refine=False, **options
        ) as segmenter:
            mask = segmenter.segment(image).mask
        return len(first.views), len(best.views), mask

    sure, doubtful = Reds(), Doubtful()
    assert looks(sure)[:2] == (1, 0)
    once, again, mask = looks(doubtful)
    assert (once, again) == (1, 4) and mask.max() > 0.95 and iou(mask > 0.5, inside) > 0.8
    assert looks(doubtful, quality="fast")[:2] == (1, 0)
    assert looks(doubtful, quality="best")[:2] == (4, 0)
    # In a video all of the frame is looked at, and closer, which is too doubtful to follow.
    assert looks(doubtful, mode="video")[:2] == (2, 0)
    alone = PortraitSegmenter(model=doubtful, finder_model=finder, refine=False)
    assert alone.segment(image).mask.max() < 0.8
    # Who is hardly there at all is not nobody before the best network says so.
    nobody = Reds()
    nobody.run = lambda inputs: {"mask": 0.3 * Reds.run(nobody, inputs)["mask"]}  # type: ignore[method-assign]
    assert looks(nobody)[:2] == (1, 4)
    # Nor is who the finder alone sees.
    blind = Reds()
    blind.run = lambda inputs: {"mask": 0 * Reds.run(blind, inputs)["mask"]}  # type: ignore[method-assign]
    once, again, mask = looks(blind)
    assert (once, again) == (1, 4) and iou(mask > 0.5, inside) > 0.8
    image = np.full_like(image, 120)
    assert looks(blind)[:2] == (1, 0)


def test_whom_the_finder_misses_the_best_quality_sees_in_all_of_the_picture(finder: Reds) -> None:
    """The box holds the people of the finder and of a look at all, at once."""
    boxes = ((40, 10, 80, 50), (250, 150, 70, 60))
    image = np.full((300, 400, 3), 120, np.uint8)
    for left, top, width, height in boxes:
        image[top : top + height, left : left + width] = RED

    class Short(Reds):
        """Sees nobody in the right half."""

        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            found = super().run(inputs)
            found["mask"][:, :, SIDE // 4 :] = 0
            return found

    def seen(**options: Any) -> list[float]:
        kit = PortraitSegmenter(
            model=network, finder_model=Short(finds=True), refine=False, **options
        )
        mask = kit.segment(image).mask
        return [mask[y : y + h, x : x + w].mean() for x, y, w, h in boxes]

    network = Reds()
    assert [each > 0.8 for each in seen(quality="fast")] == [True, False]
    network.views.clear()
    assert [each > 0.8 for each in seen(quality="best")] == [True, True]
    # They are small in what is seen, and blurred to the network: quarters are looked at, too, and
    # each of both alone.
    assert len(network.views) == 10
    shares = [(view[..., 0] > 150).mean() for view in network.views]
    assert max(shares[4:8]) > 1.2 * shares[1]
    assert min(shares[8:]) > 0.5
    # Who fills the picture is looked at once, and mirrored.
    image = np.full((300, 400, 3), RED, np.uint8)
    network.views.clear()
    kit = PortraitSegmenter(model=network, finder_model=finder, refine=False, quality="best")
    assert kit.segment(image).mask.min() > 0.9
    assert len(network.views) == 2


def test_further_people_are_in_the_box(reds: Reds, finder: Reds) -> None:
    boxes = ((40, 10, 80, 50), (250, 150, 70, 60))
    image = np.full((300, 400, 3), 120, np.uint8)
    for left, top, width, height in boxes:
        image[top : top + height, left : left + width] = RED
    mask = PortraitSegmenter(model=reds, finder_model=finder).segment(image).mask
    assert iou(mask > 0.5, image[..., 0] == RED[0]) > 0.95
    (glance,), (look, *closer) = finder.views, reds.views
    share = [(view[..., 0] > 150).mean() for view in (glance, look)]
    assert 1.3 * share[0] < share[1] < 2.5 * share[0]
    # The network is in doubt of them, apart from each other and small: each is looked at alone.
    assert len(closer) == 2
    assert min((view[..., 0] > 150).mean() for view in closer) > 0.5


def test_people_who_fill_the_picture_are_looked_at_whole(reds: Reds, finder: Reds) -> None:
    image = np.full((480, 640, 3), 120, np.uint8)
    image[75:, :320] = RED
    image[75:, 320:] = (230, 30, 30)
    PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    PortraitSegmenter(model=reds, second_pass=False).segment(image)
    whole, without = reds.views
    assert (whole == without).all()
    image[:130] = 120
    PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    glance, part = (view[..., 0] > 150 for view in (finder.views[-1], reds.views[-1]))
    assert part.mean() > 1.05 * glance.mean()


def test_what_is_small_in_the_finders_box_is_looked_at_closer(reds: Reds) -> None:
    """The finder, which sees little, takes half of the picture for people."""

    class Generous(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            mask = np.zeros_like(super().run(inputs)["mask"])
            mask[:, :, mask.shape[2] // 2 :] = 1
            return {"mask": mask}

    image, inside = small_disc()
    segmenter = PortraitSegmenter(model=reds, finder_model=Generous(finds=True))
    assert iou(segmenter.segment(image).mask > 0.5, inside) > 0.93
    first, second = ((view[..., 0] > 150).mean() for view in reds.views)
    assert second > 5 * first
    reds.views.clear()
    # Nobody is said after one look, as nothing is left to look at closer.
    assert segmenter.segment(np.full_like(image, 120)).coverage == 0
    assert len(reds.views) == 1


def test_where_nobody_is_found_the_picture_is_looked_at_whole(reds: Reds, finder: Reds) -> None:
    """What the finder misses the other network may see, and looks at closer."""

    class Blind(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"mask": np.zeros_like(super().run(inputs)["mask"])}

    image, inside = small_disc()
    mask = PortraitSegmenter(model=reds, finder_model=Blind(finds=True)).segment(image).mask
    assert iou(mask > 0.5, inside) > 0.93
    whole, part = (view[..., 0] > 150 for view in reds.views)
    assert part.mean() > 10 * whole.mean()
    reds.views.clear()
    empty = PortraitSegmenter(model=reds, finder_model=finder).segment(np.full_like(image, 120))
    # The network's second look is where the finder sees somebody in a part.
    assert len(reds.views) == 1 and empty.coverage == 0
    assert len(finder.views) == 1 + sum(count * count for count, _ in FAR_PARTS)


def test_frames_of_videos_are_looked_at_once(reds: Reds, finder: Reds) -> None:
    image, _ = scene(240, 240)
    segmenter = PortraitSegmenter("video", model=reds, finder_model=finder)
    for number in range(3):
        segmenter.segment(image)
        assert len(reds.views) == number + 1
    assert not finder.views


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (700, 3), (899, 1201), (896, 448)])
def test_any_part_of_any_picture_is_looked_at_again(
    reds: Reds, finder: Reds, size: tuple[int, int]
) -> None:
    for part in (slice(None), slice(-1, None), slice(0, 1)):
        image = np.full((*size, 3), 120, np.uint8)
        image[part, part] = RED
        mask = PortraitSegmenter(model=reds, finder_model=finder).segment(image).mask
        assert mask.shape == size and mask.min() >= 0 and mask.max() <= 1


@pytest.mark.parametrize("size", [(1, 90), (90, 1)])
def test_a_mirrored_line_is_a_picture_too(reds: Reds, finder: Reds, size: tuple[int, int]) -> None:
    line = scene(*size)[0]
    segmenter = PortraitSegmenter(model=reds, finder_model=finder)
    for mirrored in (line[::-1], line[:, ::-1]):
        found = segmenter.segment(mirrored).mask
        assert (found == segmenter.segment(mirrored.copy()).mask).all()


def test_nobody_gives_an_empty_mask(reds: Reds, finder: Reds) -> None:
    segmenter = PortraitSegmenter(model=reds, finder_model=finder, background="blur")
    found = segmenter.segment(picture(120, 160))
    assert found.coverage == 0 and not found.mask.any() and not found.alpha.any()
    assert found.picture is not None and found.picture.shape == (120, 160, 3)
    grey = segmenter.segment(np.full((50, 40), 128, np.uint8))
    assert grey.coverage == 0


def test_what_is_read(reds: Reds, finder: Reds, tmp_path: Path) -> None:
    """Turned, mirrored, with an alpha channel, and turned by EXIF."""
    import PIL.Image

    image, _ = scene(120, 200, shift=-40)
    segmenter = PortraitSegmenter(model=reds, finder_model=finder)
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
def test_what_is_no_picture(reds: Reds, finder: Reds, source: Any) -> None:
    with pytest.raises(ImageError):
        PortraitSegmenter(model=reds, finder_model=finder).segment(source)


def test_roi_is_looked_at_alone(reds: Reds, finder: Reds) -> None:
    image = picture(200, 300, (0, 20, 60, 60), (0, 200, 60, 60))
    found = (
        PortraitSegmenter(model=reds, finder_model=finder)
        .segment(image, roi=(150, 0, 150, 200))
        .mask
    )
    assert not found[:, :150].any()
    assert iou(found[:, 150:] > 0.5, image[:, 150:, 0] > 0) > 0.95
    with pytest.raises(ImageError, match="roi: lies outside"):
        PortraitSegmenter(model=reds, finder_model=finder).segment(image, roi=(400, 0, 9, 9))


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
def test_options_that_cannot_be(reds: Reds, finder: Reds, options: Any, message: str) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match=message):
        PortraitSegmenter(model=reds, finder_model=finder, **options)
    assert threading.active_count() == before


def test_a_background_that_is_no_picture(reds: Reds, finder: Reds) -> None:
    with pytest.raises(ImageError, match="no such file: beach.jpg"):
        PortraitSegmenter(model=reds, finder_model=finder, background="beach.jpg")


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
    with pytest.raises(ModelError, match="input image: expected"):
        PortraitSegmenter(model=Reds(), finder_model=model)
    # One that draws masks of its whole side is no finder.
    with pytest.raises(ModelError, match="output mask: expected"):
        PortraitSegmenter(model=Reds(), finder_model=Reds()).segment(picture(20, 20))


def test_numbers_that_are_none_are_nobody() -> None:
    class Broken(Reds):
        def run(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
            return {"mask": np.full((1, SIDE, SIDE, 1), np.nan, np.float32)}

    assert PortraitSegmenter(model=Broken()).segment(picture(50, 60)).coverage == 0


def test_result_of_the_json(reds: Reds, finder: Reds) -> None:
    image, inside = scene()
    found = PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    assert found.to_dict() == {
        "width": 320,
        "height": 240,
        "coverage": pytest.approx(inside.mean(), abs=0.01),
    }
    assert found.picture is None
    assert (found.gray() == np.rint(found.mask * 255)).mean() > 0.99


def test_overlay_tints_and_outlines(reds: Reds, finder: Reds) -> None:
    image, _ = scene()
    found = PortraitSegmenter(model=reds, finder_model=finder).segment(image)
    drawn = kits.draw.mask(image, found)
    assert (drawn[:40, :40] == image[:40, :40]).all()
    assert np.abs(drawn[120, 160].astype(int) - (np.array(RED) + kits.draw.ACCENT) / 2).max() <= 2
    with pytest.raises(ImageError, match="draw mask: expected"):
        kits.draw.mask(image[:100], found)


@pytest.mark.parametrize("name", ["portrait", "hair"])
def test_the_models_shipped_on_a_photograph(name: str) -> None:
    import skimage.data

    for each in (name, "person_finder"):
        if not shipped_model(each).is_file():
            pytest.skip(f"models/{each}/{each}.palm has not been made here")
    photo = kits.read_image(skimage.data.astronaut())  # type: ignore[no-untyped-call]
    kit = PortraitSegmenter() if name == "portrait" else HairSegmenter()
    found = kit.segment(photo)
    hair, face, wall = (20, 225), (110, 222), (60, 330)
    assert found.mask[hair] > 0.8 and found.mask[wall] < 0.2
    assert found.mask[face] > 0.8 if name == "portrait" else found.mask[face] < 0.2
    assert (0.35 if name == "portrait" else 0.02) < found.coverage < 0.65
    assert kit.segment(np.full((120, 160, 3), 140, np.uint8)).coverage < 0.02


def test_a_large_picture_needs_little_memory(reds: Reds, finder: Reds) -> None:
    """Beside the picture and the mask, less than another two masks at a time."""
    import tracemalloc

    image, _ = scene(1500, 2000)
    segmenter = PortraitSegmenter(model=reds, finder_model=finder)
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
