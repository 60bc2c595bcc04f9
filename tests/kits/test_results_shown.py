"""Results as pictures: drawn, cut out, saved, in notebooks; and what they keep for it."""

import copy
import dataclasses
import gc
import io
import os
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import PIL.Image
import pytest

from palmkit import kits
from palmkit.kits import Faces, ImageError, Mask, TriedOn, live, read_image
from palmkit.kits.image import Image, Source
from palmkit.kits.original import Original
from palmkit.kits.results.result import SHOWN_SIDE
from palmkit.kits.results.things import SHOWN_SIDE as SHOWN_THING_SIDE
from tests.kits.conftest import Blobs, picture
from tests.kits.test_results import hands, mask, tried_on


@pytest.fixture
def detector(blobs: Blobs) -> kits.FaceDetector:
    return kits.FaceDetector(model=blobs, min_score=0.5)


def red(height: int = 96, width: int = 128) -> Image:
    return picture(height, width, (0, 32, 32, 32))


def sized(png: bytes | None) -> tuple[int, int]:
    assert png is not None and png.startswith(b"\x89PNG")
    return PIL.Image.open(io.BytesIO(png)).size


# Drawing.


def test_a_result_draws_itself_on_its_picture(detector: kits.FaceDetector) -> None:
    image = red()
    faces = detector.detect(image)
    before = image.copy()
    np.testing.assert_array_equal(faces.draw(), kits.draw.faces(image, faces))
    np.testing.assert_array_equal(
        faces.draw(labels=False), kits.draw.faces(image, faces, labels=False)
    )
    np.testing.assert_array_equal(image, before)
    assert faces.image is image
    other = np.full_like(image, 200)
    np.testing.assert_array_equal(faces.draw(other), kits.draw.faces(other, faces))
    with pytest.raises(ImageError, match=r"draw faces: expected uint8\[96, 128, 3\]"):
        faces.draw(other[:50])


def test_one_thing_is_drawn_alone(detector: kits.FaceDetector) -> None:
    image = picture(96, 256, (0, 32, 32, 32), (2, 160, 32, 32))
    faces = detector.detect(image)
    first, second = faces
    np.testing.assert_array_equal(first.draw(), kits.draw.faces(image, faces[:1]))
    x, y = (second.box[:2] + second.box[2:] / 2).astype(int)
    around = slice(y - 20, y + 20), slice(x - 20, x + 20)
    np.testing.assert_array_equal(first.draw()[around], image[around])


def test_masks_and_looks_are_drawn() -> None:
    found = mask()
    np.testing.assert_array_equal(found.draw(), kits.draw.mask(found.image, found))
    tinted = found.draw(colour=(255, 0, 0), outline=False)
    assert tinted[15, 15].tolist() == [172, 45, 45] and tinted[0, 0].tolist() == [90] * 3
    worn = tried_on()
    assert (worn.draw() == worn.after).all() and not np.shares_memory(worn.draw(), worn.after)


def test_hands_draw_themselves() -> None:
    image = np.full((480, 640, 3), 90, np.uint8)
    found = dataclasses.replace(hands(), original=Original.of(image))
    np.testing.assert_array_equal(found.draw(), kits.draw.hands(image, found))
    alone = found[1].draw(image)
    np.testing.assert_array_equal(alone, kits.draw.hands(image, found[1:]))


# Cutting out.


def test_crops_are_copies_of_the_boxes(detector: kits.FaceDetector) -> None:
    image = red()
    faces = detector.detect(image)
    (crop,) = faces.crop()
    np.testing.assert_array_equal(crop, image[32:64, 32:64])
    assert not np.shares_memory(crop, image)
    np.testing.assert_array_equal(faces[0].crop(0.25), image[24:72, 24:72])
    np.testing.assert_array_equal(faces[0].crop(-0.25), image[40:56, 40:56])
    # Where the picture ends, the crop ends.
    np.testing.assert_array_equal(faces[0].crop(9), image)
    other = np.full_like(image, 7)
    assert (faces[0].crop(image=other) == 7).all()
    for margin in (-0.5, float("nan"), float("inf")):
        for upright in (False, True):
            with pytest.raises(ValueError, match="margin: expected a number, at least -0.49"):
                faces[0].crop(margin, upright=upright)


def test_what_is_outside_has_no_crop(detector: kits.FaceDetector) -> None:
    face = dataclasses.replace(detector.detect(red())[0], box=np.array([500, 2, 9, 9], np.float32))
    with pytest.raises(ImageError, match="crop: nothing of the box is in the picture of 128x96"):
        face.crop()
    none = dataclasses.replace(mask(), mask=np.zeros((30, 40), np.float32))
    assert none.box.tolist() == [0, 0, 0, 0]
    with pytest.raises(ImageError, match="crop: nothing of the box"):
        none.crop()


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_upright_crops_stand_upright(turns: int) -> None:
    """A face turned in the picture gives the crop that it gives upright."""
    image = live.sample("face")
    turned = np.ascontiguousarray(np.rot90(image, -turns))
    face = kits.face_mesh(image)[0]
    middle, side = face.box[:2] + face.box[2:] / 2, 512
    points, corner = face.keypoints - middle, middle
    for _ in range(turns):
        points, corner = points[:, ::-1] * [-1, 1], np.array([side - corner[1], corner[0]])
    size = face.box[2:] if turns % 2 == 0 else face.box[3:1:-1]
    box = np.concatenate([corner - size / 2, size]).astype(np.float32)
    moved = kits.Face(box, 1.0, (points + corner).astype(np.float32), original=Original.of(turned))
    upright = dataclasses.replace(face, mesh=None).crop(0.3, upright=True)
    again = moved.crop(0.3, upright=True)
    assert upright.shape == again.shape and upright.shape[0] == upright.shape[1]
    assert np.abs(upright.astype(int) - again).mean() < 2


def test_hands_stand_upright_by_their_fingers() -> None:
    points = np.zeros((2, 21, 3), np.float32)
    # From the wrist to the base of the middle finger: to the right, and down.
    points[0, 9], points[1, 9] = (40, 0, 0), (0, 40, 0)
    found = dataclasses.replace(hands(), landmarks=points)
    assert [hand.angle for hand in found] == pytest.approx([np.pi / 2, np.pi])


def test_a_mask_has_a_box_and_a_crop() -> None:
    found = mask()
    assert found.box.tolist() == [5, 10, 20, 10]
    np.testing.assert_array_equal(found.crop(), found.image[10:20, 5:25])
    assert found.crop(0.1).shape == (12, 24, 3)
    worn = tried_on()
    first, second = worn.crop()
    assert (first == 91).all() and first.shape[:2] == (41, 31) and second.shape[:2] == (4, 3)


# Saving.


def test_results_save_themselves(tmp_path: Path, detector: kits.FaceDetector) -> None:
    faces = detector.detect(red())
    faces.save(tmp_path / "found.png")
    np.testing.assert_array_equal(read_image(tmp_path / "found.png"), faces.draw())
    faces[0].save(tmp_path / "face.png", 0.25)
    np.testing.assert_array_equal(read_image(tmp_path / "face.png"), faces[0].crop(0.25))
    with pytest.raises(ImageError, match="no picture format has the suffix '.txt'"):
        faces.save(tmp_path / "found.txt")


def test_a_mask_saves_any_of_its_views(tmp_path: Path) -> None:
    found, path = mask(), tmp_path / "a.png"
    found.save(path)
    assert np.array_equal(np.asarray(PIL.Image.open(path)), found.gray())
    found.save(path, "cutout")
    assert np.array_equal(np.asarray(PIL.Image.open(path)), found.cutout())
    found.save(path, "drawn")
    assert np.array_equal(read_image(path), found.draw())
    with pytest.raises(ValueError, match="view: 'picture' needs a background"):
        found.save(path, "picture")
    with pytest.raises(ValueError, match="view: expected one of 'mask'.* got 'cutot'"):
        found.save(path, "cutot")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    placed = dataclasses.replace(
        found, backdrop=kits.segment_portrait(found.image, "#ff0000").backdrop
    )
    placed.save(path)
    assert placed.picture is not None and np.array_equal(read_image(path), placed.picture)
    placed.save(path, "mask")
    assert np.array_equal(np.asarray(PIL.Image.open(path)), found.gray())


def test_a_look_saves_before_and_after(tmp_path: Path) -> None:
    worn, path = tried_on(), tmp_path / "a.png"
    worn.save(path)
    assert np.array_equal(read_image(path), worn.after)
    worn.save(path, "before_after")
    assert np.array_equal(read_image(path), worn.before_after())
    worn.save(path, "split")
    assert np.array_equal(read_image(path), worn.split())
    with pytest.raises(ValueError, match="view: expected one of 'after'"):
        worn.save(path, "before")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# Notebooks.


def in_a_notebook(value: object) -> dict[str, Any]:
    """Return what a notebook keeps of a cell's value, by kinds of content."""
    formatters = pytest.importorskip(
        "IPython.core.formatters", reason="IPython is in the extra dev"
    )
    found, _ = formatters.DisplayFormatter().format(value)
    return dict(found)


def test_a_notebook_shows_what_was_found(detector: kits.FaceDetector) -> None:
    faces = detector.detect(red())
    shown = in_a_notebook(faces)
    assert shown["text/plain"] == repr(faces)
    drawn = np.asarray(PIL.Image.open(io.BytesIO(shown["image/png"])))
    np.testing.assert_array_equal(drawn, faces.draw())
    thing = in_a_notebook(faces[0])
    assert thing["text/plain"] == repr(faces[0])
    # With what is round it: 0.3 of 32 pixels on each side, whole pixels.
    assert sized(thing["image/png"]) == (52, 52)


def test_a_notebook_shows_masks_and_looks() -> None:
    found = mask()
    shown = np.asarray(PIL.Image.open(io.BytesIO(in_a_notebook(found)["image/png"])))
    np.testing.assert_array_equal(shown, found.draw())
    placed = dataclasses.replace(
        found, backdrop=kits.segment_portrait(found.image, "#ff0000").backdrop
    )
    shown = np.asarray(PIL.Image.open(io.BytesIO(in_a_notebook(placed)["image/png"])))
    np.testing.assert_array_equal(shown, placed.picture)
    assert sized(in_a_notebook(tried_on())["image/png"]) == (800, 300)


def test_large_pictures_are_shown_small(detector: kits.FaceDetector) -> None:
    image = np.zeros((3000, 1000, 3), np.uint8)
    image[200:1400, 100:900, 0] = 240
    faces = detector.detect(image)
    assert sized(in_a_notebook(faces)["image/png"]) == (round(SHOWN_SIDE / 3), SHOWN_SIDE)
    assert max(sized(in_a_notebook(faces[0])["image/png"])) == SHOWN_THING_SIDE
    thin = detector.detect(np.zeros((1, 5000, 3), np.uint8))
    assert sized(in_a_notebook(thin)["image/png"]) == (SHOWN_SIDE, 1)


def test_a_notebook_has_words_where_there_is_no_picture(blobs: Blobs) -> None:
    with kits.FaceDetector("video", model=blobs) as detector:
        faces = detector.detect(red(), 0)
    assert in_a_notebook(faces) == {"text/plain": repr(faces)}
    assert in_a_notebook(faces[0]) == {"text/plain": repr(faces[0])}
    assert in_a_notebook([faces]) == {"text/plain": f"[{faces!r}]"}


# What is kept for it.


def test_a_video_keeps_no_frames(blobs: Blobs) -> None:
    with kits.FaceDetector("video", model=blobs, min_score=0.5) as detector:
        found: list[Faces] = []
        frames: list[ref[Image]] = []

        def see(frame: Image) -> None:
            frames.append(ref(frame))
            found.append(detector.detect(frame, 33.0 * len(found)))

        for _ in range(5):
            see(red())
        gc.collect()
        assert not any(frame() is not None for frame in frames)
        assert all(len(faces) == 1 and faces.original is None for faces in found)
    message = "faces: keeps no picture, being of a video or unpickled; give it, as in draw.frame."
    with pytest.raises(ImageError, match=message):
        found[0].draw()
    with pytest.raises(ImageError, match=message):
        found[0].crop()
    with pytest.raises(ImageError, match=message):
        found[0].image  # noqa: B018
    with pytest.raises(ImageError, match="face: keeps no picture"):
        found[0][0].crop()
    assert (found[0].draw(red()) != red()).any()
    assert found[0].crop(image=red())[0].shape == found[0][0].crop(image=red()).shape == (32, 32, 3)


def test_a_stream_keeps_no_frames(blobs: Blobs) -> None:
    found: list[tuple[Faces, Any]] = []

    def take(faces: Faces, frame: Image, timestamp_ms: float | None) -> None:
        found.append((faces, ref(frame)))

    with kits.FaceDetector("stream", model=blobs, on_result=take) as detector:
        detector.submit(red())
    gc.collect()
    ((faces, frame),) = found
    assert faces.original is None and frame() is None


@pytest.mark.parametrize("kind", ["path", "bytes", "file"])
def test_results_of_files_keep_no_pixels(
    kind: str, tmp_path: Path, detector: kits.FaceDetector
) -> None:
    """A thousand results of a folder are a few kilobytes each, however large the pictures."""
    path = tmp_path / "large.png"
    kits.write_image(path, red(600, 800))
    data = path.read_bytes()
    assert len(data) < 20_000
    given: dict[str, Callable[[], Any]] = {
        "path": lambda: path,
        "bytes": lambda: data,
        "file": lambda: io.BytesIO(data),
    }
    detector.detect(path).draw()
    gc.collect()
    tracemalloc.start()
    try:
        found: list[Faces] = [detector.detect(one()) for one in [given[kind]] * 8]
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        # One picture is 1.4 MB. What is drawn keeps one of them, the last one, for its result.
        assert kept < 400_000
        assert {each.draw().shape for each in found} == {(600, 800, 3)}
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        assert kept < 1_900_000
        found.clear()
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
        assert kept < 100_000
    finally:
        tracemalloc.stop()


def test_an_array_is_kept_as_it_is_and_not_copied(detector: kits.FaceDetector) -> None:
    image = np.ascontiguousarray(red()[..., ::-1])
    faces = detector.detect(image, format="bgr", rotation=90)
    assert faces.original is not None and faces.original.source is image
    np.testing.assert_array_equal(faces.image, np.rot90(red(), -1))
    assert faces.draw().shape == (128, 96, 3)
    kept = ref(image)
    del image, faces
    gc.collect()
    assert kept() is None


def test_a_file_is_read_once_for_all_of_its_faces(
    tmp_path: Path, detector: kits.FaceDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palmkit.kits import original

    path = tmp_path / "two.png"
    kits.write_image(path, picture(96, 256, (0, 32, 32, 32), (2, 160, 32, 32)))
    faces = detector.detect(path)
    read: list[Any] = []

    def reading(source: Source, **how: Any) -> Image:
        read.append(source)
        return read_image(source, **how)

    monkeypatch.setattr(original, "read_image", reading)
    crops = [face.crop() for face in faces]
    assert len(crops) == 2 and read == [str(path)]


def test_a_file_that_has_changed_is_not_drawn_on(
    tmp_path: Path, detector: kits.FaceDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kits.write_image("a.png", red())
    faces = detector.detect("a.png")
    assert "a.png" in repr(faces.original)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert faces.draw().shape == (96, 128, 3)
    other = detector.detect(tmp_path / "a.png")
    kits.write_image(tmp_path / "a.png", np.zeros((96, 128, 3), np.uint8))
    os.utime(tmp_path / "a.png", ns=(1, 1))
    message = "the picture has changed, or is gone, since it was read: .*a.png"
    with pytest.raises(ImageError, match=message):
        other.draw()
    assert in_a_notebook(other) == {"text/plain": repr(other)}
    (tmp_path / "a.png").unlink()
    with pytest.raises(ImageError, match=message):
        other.crop()


def test_pickles_have_the_path_and_no_pixels(tmp_path: Path, detector: kits.FaceDetector) -> None:
    kits.write_image(tmp_path / "a.png", red(1000, 1000))
    by_path = detector.detect(tmp_path / "a.png")
    again = pickle.loads(pickle.dumps(by_path))
    np.testing.assert_array_equal(again.draw(), by_path.draw())
    for given in (red(1000, 1000), PIL.Image.fromarray(red(1000, 1000)), io.BytesIO()):
        if isinstance(given, io.BytesIO):
            given = io.BytesIO((tmp_path / "a.png").read_bytes())
        faces = detector.detect(given)
        data = pickle.dumps(faces)
        assert len(data) < 2000
        assert pickle.loads(data).original is None
        for copied in (copy.copy(faces), copy.deepcopy(faces), copy.deepcopy(faces)[0]):
            assert copied.original is faces.original
        np.testing.assert_array_equal(copy.deepcopy(faces).draw(), faces.draw())
        assert dataclasses.replace(faces, scores=faces.scores).original is faces.original
        assert dataclasses.asdict(faces)["original"] is faces.original


def test_masks_and_looks_say_what_they_keep_by_being_it() -> None:
    image = np.full((48, 64, 3), 90, np.uint8)
    found, worn = kits.segment_portrait(image), kits.try_on(image, lipstick="ruby")
    assert isinstance(found, Mask) and found.image is image
    assert isinstance(worn, TriedOn) and worn.before is image and worn.faces.original is not None
    assert worn.faces.original.source is image


@pytest.mark.filterwarnings("error")
def test_no_result_is_drawn_where_nobody_asked(
    detector: kits.FaceDetector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: Original) -> Image:
        raise AssertionError("read again")

    monkeypatch.setattr(Original, "read", read)
    faces = detector.detect(red())
    assert repr(faces) and faces.to_json() and len(faces[:1]) == 1 and list(faces)
