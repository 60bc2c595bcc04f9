"""Blurred faces: what is gone, what is covered, and what stays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
from numpy.typing import NDArray

from palmkit import kits
from palmkit.engine.errors import ImageError
from palmkit.kits.boxes import iou
from palmkit.kits.face.blur import FADE, HELD_S, heads_of
from palmkit.kits.image import Image, read_image
from palmkit.kits.results import Faces
from palmkit.kits.video import VideoReader
from tests.docs.examples import NEEDS_MODELS
from tests.kits.conftest import picture
from tests.kits.test_cli import write_picture, write_video
from tests.kits.test_cli_camera import Camera, opens
from tests.kits.test_live import Screen

# A face that looks straight ahead: eyes, nose and mouth in a box of 1 x 1.
POINTS = np.array([(0.7, 0.4), (0.3, 0.4), (0.5, 0.6), (0.65, 0.8), (0.35, 0.8)])
MODES = pytest.mark.parametrize("pixelate", [False, True], ids=["blur", "pixelate"])


def faces_at(
    shape: tuple[int, ...], *boxes: tuple[float, ...], ids: Any = None, score: float = 0.9
) -> Faces:
    """Faces in a picture, upright."""
    rows = np.array(boxes, np.float32).reshape(-1, 4)
    points = rows[:, None, :2] + POINTS * rows[:, None, 2:]
    scores = np.full(len(rows), score, np.float32)
    known = None if ids is None else np.array(ids, np.int64)
    return Faces(shape[1], shape[0], rows, scores, points.astype(np.float32), known)


def noise(height: int, width: int) -> Image:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def inner(picture: NDArray[Any], box: tuple[float, ...]) -> NDArray[np.float64]:
    x, y, width, height = map(round, box)
    return picture[y : y + height, x : x + width].astype(np.float64)


def turned(faces: Faces) -> Faces:
    """The faces of the picture that np.rot90 gives."""
    x, y, width, height = faces.boxes.T
    boxes = np.stack([y, faces.width - x - width, height, width], axis=1)
    points = np.stack([faces.keypoints[..., 1], faces.width - faces.keypoints[..., 0]], axis=-1)
    return Faces(faces.height, faces.width, boxes, faces.scores, points)


@pytest.fixture(scope="module")
def astronaut() -> Image:
    return np.asarray(skimage.data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]


@MODES
@pytest.mark.parametrize("size", [24, 60, 200])
@pytest.mark.parametrize("periods", [2, 3, 5, 9])
def test_detail_of_half_a_face_and_less_is_gone(size: int, periods: int, pixelate: bool) -> None:
    """Two pictures that differ in it alone become one, but for a step of their colours."""
    box = (2.0 * size, 2.0 * size, float(size), float(size))
    y, x = np.mgrid[: 5 * size, : 5 * size] * (2 * np.pi * periods / size)
    ground = np.full((5 * size, 5 * size), 129.0)
    made = [ground + 80 * wave for wave in (0, np.sin(x), np.sin(y + 1), np.sin(x) * np.sin(y))]
    hidden = [
        kits.blur_faces(picture, faces_at(picture.shape, box), pixelate=pixelate)
        for picture in (np.repeat(each[..., None], 3, axis=2).astype(np.uint8) for each in made)
    ]
    flat = inner(hidden[0], box)
    for each in hidden[1:]:
        assert np.abs(inner(each, box) - flat).max() <= 4


@MODES
@pytest.mark.parametrize("size", [40, 160])
def test_noise_becomes_flat(size: int, pixelate: bool) -> None:
    box = (1.5 * size, 1.5 * size, float(size), 1.2 * size)
    shape = (4 * size, 4 * size)
    hidden = kits.blur_faces(noise(*shape), faces_at(shape, box), pixelate=pixelate)
    assert inner(noise(*shape), box).std() > 70
    # 74 / (2 sqrt(pi) sigma) with sigma of a quarter of the size, and the rounding to 4 levels.
    assert inner(hidden, box).std() < 74 / (3.5 * size / 4) + 2


@NEEDS_MODELS
@MODES
def test_nobody_is_found_any_more(astronaut: Image, pixelate: bool) -> None:
    before = kits.detect_faces(astronaut)
    hidden = kits.blur_faces(astronaut, before, pixelate=pixelate)
    after = kits.detect_faces(hidden, min_score=0.5)
    boxes = [np.concatenate([each[:, :2], each[:, :2] + each[:, 2:]], 1) for each in
             (before.boxes, after.boxes)]  # fmt: skip
    assert not len(after) or iou(*boxes).max() < 0.2
    # Of neighbouring pixels hardly any differ by more than a smooth shade does.
    steps = np.abs(np.diff(inner(hidden, before.boxes[0].tolist()), axis=1)).max(axis=2)
    assert np.quantile(steps, 0.8) <= 2
    assert np.quantile(np.abs(np.diff(inner(astronaut, before.boxes[0].tolist()), axis=1)), 0.8) > 5


@NEEDS_MODELS
def test_it_cannot_be_undone(astronaut: Image) -> None:
    """Wiener's filter, told the blur and the noise that give the best result, sees no features.

    A usual blur of a tenth of the size is undone by it to a good part.
    """
    faces = kits.detect_faces(astronaut)
    x, y, width, height = map(int, faces.boxes[0])
    size = (width + height) / 2
    rows, columns = slice(0, y + 2 * height), slice(x - width, x + 2 * width)
    band = (slice(y, y + height), slice(width, 2 * width))
    truth = astronaut[rows, columns].mean(axis=2)
    frequencies = np.hypot(*np.meshgrid(*map(np.fft.fftfreq, truth.shape), indexing="ij"))

    def response(sigma: float) -> NDArray[np.float64]:
        return np.asarray(np.exp(-2 * (np.pi * sigma * size * frequencies) ** 2))

    def features(picture: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is smaller than about a third of the face."""
        spectrum = np.fft.fft2(picture) * (1 - response(0.08))
        return np.asarray(np.fft.ifft2(spectrum).real[band].ravel())

    def best(seen: NDArray[np.float64], sigma: float) -> float:
        blur, prior = response(sigma), 1 / np.maximum(frequencies, 1e-3) ** 2
        undone = [
            np.fft.ifft2(np.fft.fft2(seen) * blur * prior / (blur**2 * prior + level)).real
            for level in np.geomspace(1e-5, 1e2, 8)
        ]
        return max(float(np.corrcoef(features(each), features(truth))[0, 1]) for each in undone)

    usual = np.rint(np.fft.ifft2(np.fft.fft2(truth) * response(0.1)).real)
    assert best(usual, 0.1) > 0.5
    hidden = kits.blur_faces(astronaut, faces)[rows, columns].mean(axis=2)
    assert max(best(hidden, sigma) for sigma in (0.2, 0.25, 0.3)) < 0.25


@MODES
def test_the_head_is_covered_and_the_rest_stays(pixelate: bool) -> None:
    box = (200.0, 200.0, 100.0, 120.0)
    before = noise(600, 500)
    hidden = kits.blur_faces(before, faces_at(before.shape, box), pixelate=pixelate)
    changed = np.abs(hidden.astype(int) - before).max(axis=2)
    # The face, the hair above it and the ears beside it.
    for x, y, width, height in ((200, 200, 100, 120), (215, 150, 70, 50), (182, 230, 136, 60)):
        part = hidden[y : y + height, x : x + width].astype(int)
        assert np.abs(np.diff(part, axis=1)).max() <= 24
    left, top, width, height = map(round, heads_of(faces_at(before.shape, box))[0].box())
    outside = np.ones(before.shape[:2], bool)
    outside[top : top + height, left : left + width] = False
    assert not changed[outside].any()
    assert width < 2 * 100 and height < 2.1 * 120


def test_the_edge_is_soft() -> None:
    head = heads_of(faces_at((400, 400), (150, 150, 80, 100)))[0]
    share = head.cover(0, 0, 400, 400)
    assert share.min() == 0 and share.max() == 1
    assert np.abs(np.diff(share, axis=0)).max() < 0.12 and np.abs(np.diff(share)).max() < 0.12
    rows, columns = np.nonzero(share)
    left, top, width, height = head.box()
    assert left <= columns.min() and columns.max() < left + width
    assert top <= rows.min() and rows.max() < top + height
    assert share[150:250, 150:230].min() == 1 and FADE > 0


def test_a_head_that_lies_is_covered_as_it_lies() -> None:
    before = noise(300, 300)
    faces = faces_at(before.shape, (110, 120, 60, 80))
    upright = heads_of(faces)[0].cover(0, 0, 300, 300)
    lying = heads_of(turned(faces))[0].cover(0, 0, 300, 300)
    assert np.abs(np.rot90(upright) - lying).max() < 1e-5


def test_points_that_say_no_direction() -> None:
    faces = faces_at((100, 100), (40, 40, 20, 20))
    for points in (np.full((1, 5, 2), 50, np.float32), np.full((1, 5, 2), np.nan, np.float32)):
        told = Faces(100, 100, faces.boxes, faces.scores, points)
        assert np.allclose(heads_of(told)[0].across, (1, 0))
        kits.blur_faces(noise(100, 100), told)


@MODES
@pytest.mark.parametrize(
    "box",
    [
        (-80.0, -90.0, 100.0, 100.0),
        (0.0, 0.0, 64.0, 48.0),
        (500.0, 500.0, 9.0, 9.0),
        (10.0, 10.0, 1.0, 1.0),
        (10.0, 10.0, 0.0, 0.0),
        (-5000.0, -5000.0, 10_000.0, 10_000.0),
    ],
)
def test_any_place_and_size(box: tuple[float, ...], pixelate: bool) -> None:
    before = noise(48, 64)
    hidden = kits.blur_faces(before, faces_at(before.shape, box), pixelate=pixelate)
    assert hidden.shape == before.shape and hidden.dtype == np.uint8


def test_what_two_share_is_blurred_by_the_larger() -> None:
    before = noise(400, 400)
    large, small = (100.0, 100.0, 150.0, 150.0), (130.0, 130.0, 20.0, 20.0)
    for boxes in ((large, small), (small, large)):
        hidden = kits.blur_faces(before, faces_at(before.shape, *boxes))
        assert np.abs(np.diff(inner(hidden, large), axis=1)).max() <= 3


def test_the_picture_that_is_given_stays_as_it_is() -> None:
    before = noise(64, 64)
    kept = before.copy()
    hidden = kits.blur_faces(before, faces_at(before.shape, (20, 20, 20, 20)))
    assert np.array_equal(before, kept) and not np.may_share_memory(hidden, before)
    nobody = kits.blur_faces(before, faces_at(before.shape))
    assert np.array_equal(nobody, before) and not np.may_share_memory(nobody, before)


def test_faces_of_another_picture() -> None:
    for shape in ((64, 32), (32, 64)):
        with pytest.raises(ImageError, match=r"blur faces: expected uint8\[\d+, \d+, 3\], got"):
            kits.blur_faces(noise(64, 64), faces_at(shape, (2, 2, 9, 9)))
    with pytest.raises(ImageError, match="no such file"):
        kits.blur_faces("none.jpg")
    frame: Any = np.zeros((64, 64, 3), np.float32)
    with pytest.raises(ImageError, match=r"got float32\[64, 64, 3\]"):
        kits.FaceBlur()(frame, faces_at((64, 64)))


@NEEDS_MODELS
def test_one_call_finds_them_itself(astronaut: Image, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", astronaut)
    found = kits.detect_faces(astronaut, min_score=0.3)
    hidden = kits.blur_faces(tmp_path / "a.png")
    assert np.array_equal(hidden, kits.blur_faces(astronaut, found))
    assert (hidden != astronaut).any()


def changed(before: Image, after: Image, box: tuple[float, ...]) -> bool:
    """Whether all of a box is blurred; else none of it is."""
    share = (inner(before, box) != inner(after, box)).any(axis=2).mean()
    assert share < 0.02 or share > 0.9
    return bool(share > 0.9)


def test_a_face_of_a_video_that_is_lost_for_a_moment_stays_blurred() -> None:
    frame, box = noise(200, 200), (80.0, 80.0, 30.0, 36.0)
    there = faces_at(frame.shape, box, ids=[7])
    gone = faces_at(frame.shape, ids=[])
    blur = kits.FaceBlur()
    assert changed(frame, blur(frame, there, 0), box)
    for timestamp_ms in (40, 200, HELD_S * 1e3 - 1):
        assert changed(frame, blur(frame, gone, timestamp_ms), box)
    assert not changed(frame, blur(frame, gone, HELD_S * 1e3 + 40), box)


def test_an_uncertain_find_elsewhere_does_not_show_the_face() -> None:
    frame, box, other = noise(300, 300), (80.0, 80.0, 30.0, 36.0), (200.0, 200.0, 20.0, 20.0)
    blur = kits.FaceBlur()
    blur(frame, faces_at(frame.shape, box, ids=[7]), 0)
    after = blur(frame, faces_at(frame.shape, other, ids=[7], score=0.3), 40)
    assert changed(frame, after, box) and changed(frame, after, other)
    # One that was never certain is not kept.
    blur = kits.FaceBlur()
    blur(frame, faces_at(frame.shape, box, ids=[7], score=0.3), 0)
    assert not changed(frame, blur(frame, faces_at(frame.shape, ids=[]), 40), box)


def test_a_moving_face_leaves_no_trail_when_it_is_found() -> None:
    frame, box, other = noise(300, 300), (60.0, 60.0, 30.0, 36.0), (200.0, 200.0, 30.0, 36.0)
    blur = kits.FaceBlur(pixelate=True)
    blur(frame, faces_at(frame.shape, box, ids=[7]), 0)
    after = blur(frame, faces_at(frame.shape, other, ids=[7]), 40)
    assert changed(frame, after, other) and not changed(frame, after, box)


# On the command line: what is red is a face.
BOX = (64.0, 96.0, 32.0, 32.0)
SOURCE = picture(320, 640, (0, 64, 96, 32))


@pytest.fixture
def face(run: Any, red_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def face(*given: object) -> Any:
        return run("face", *given, "--size", 640, "--model", red_model)

    return face


def steepest(frame: Image) -> int:
    """The largest step from a pixel to the next one round the red square."""
    return int(np.abs(np.diff(inner(frame, (54, 86, 52, 52))[:, :, 0], axis=1)).max())


@pytest.mark.parametrize("flag", ["--blur", "--pixelate"])
def test_command_on_pictures(face: Any, flag: str) -> None:
    source = write_picture(Path("in/a.png"))
    result = face(source, flag, "-o", "a.png")
    assert (result.code, result.err) == (0, "") and result.out.startswith("in/a.png: 1 face\n")
    hidden = read_image("a.png")
    found = faces_at(SOURCE.shape, BOX)
    middle = Faces(640, 320, found.boxes, found.scores, np.full((1, 5, 2), [80, 112], np.float32))
    assert np.array_equal(hidden, kits.blur_faces(SOURCE, middle, pixelate=flag != "--blur"))
    # Neither a box nor a label is drawn.
    assert hidden[:, :, 1:].max() == 0
    write_picture(Path("in/deeper/b.png"))
    result = face("in", flag, "--json", "-o", "out")
    assert [len(line["faces"]) for line in result.lines] == [1, 1]
    assert np.array_equal(read_image("out/deeper/b.png"), hidden)


@pytest.mark.parametrize("flag", ["--blur", "--pixelate"])
def test_command_on_a_video_among_pictures(face: Any, flag: str) -> None:
    write_picture(Path("in/d.png"))
    write_video(Path("in/clip.avi"), 6)
    write_picture(Path("in/a.png"))
    assert face("in", flag, "-o", "out").code == 0
    with VideoReader("out/clip.avi") as video:
        frames = [frame for frame, _ in video]
    assert len(frames) == 6
    for frame in (*frames, read_image("out/d.png"), read_image("out/a.png")):
        assert steepest(frame) < 80 < 200 < steepest(SOURCE)


def test_command_on_a_camera(face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(3)
    opens(monkeypatch, Camera(9), screen)
    assert face("--camera", "--blur").code == 0
    assert len(screen.shown) == 3
    assert all(steepest(each) < 80 for each in screen.shown)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--blur",), "--blur: expected with -o, where the picture goes"),
        (("--pixelate", "--json"), "--pixelate: expected with -o, where the picture goes"),
        (("--blur", "--pixelate", "-o", "b.png"), "--pixelate: not allowed with argument --blur"),
        (("--blur", "--mesh", "-o", "b.png"), "--blur: expected without --mesh"),
        (("--blurr", "-o", "b.png"), "no option --blurr, did you mean --blur?"),
    ],
)
def test_command_that_cannot_be(face: Any, options: tuple[str, ...], told: str) -> None:
    write_picture(Path("a.png"))
    result = face("a.png", *options)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"palmkit face: {told}\n" and os.listdir() == ["a.png"]


def test_more_is_taken_for_a_face(run: Any, face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []

    class Detector(kits.FaceDetector):
        def __init__(self, mode: Any, **options: Any) -> None:
            given.append(options)
            super().__init__(mode, **options)

    monkeypatch.setattr("palmkit.kits.face.kit.FaceDetector", Detector)
    write_picture(Path("a.png"))
    for options in ((), ("--blur",), ("--blur", "--min-score", "0.7", "--detect-every", "4")):
        face("a.png", "-o", "b.png", *options)
    assert [each.get("min_score") for each in given] == [None, 0.3, 0.7]
    assert [each.get("detect_every") for each in given] == [None, 1, 4]
