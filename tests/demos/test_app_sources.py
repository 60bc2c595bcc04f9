"""Where the application's frames come from, and what is said when there are none."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.video import VideoWriter
from tests.demos.driving import NEEDS_MODELS

pytest.importorskip("PySide6.QtGui", reason="PySide6 is not here", exc_type=ImportError)

from palmkit.demos.app import source as sources  # noqa: E402
from palmkit.demos.app.drawing import GESTURES, HOLD_S, MAKE_S, draw  # noqa: E402
from palmkit.demos.app.sample import sample_frames  # noqa: E402
from palmkit.demos.app.source import (  # noqa: E402
    Camera,
    Picture,
    Sample,
    Shot,
    SourceError,
    Video,
    frames,
    read_source,
)


def never() -> bool:
    return False


def clip(path: Path, count: int = 6) -> Path:
    with VideoWriter(path, 30) as writer:
        for index in range(count):
            writer.write(np.full((48, 64, 3), 6 * index % 250, np.uint8))
    return path


def test_texts_name_sources(tmp_path: Path) -> None:
    picture = tmp_path / "a.PNG"
    picture.write_bytes(b"")
    assert read_source("sample") == Sample()
    assert read_source("drawing") == Sample("drawing")
    assert read_source("2") == Camera(2)
    assert read_source(str(picture)) == Picture(picture)
    assert read_source(str(clip(tmp_path / "a.mp4"))) == Video(tmp_path / "a.mp4")
    (tmp_path / "notes.txt").write_text("no picture")
    for text, problem in (
        ("gone.png", "missing"),
        (str(tmp_path / "notes.txt"), "unreadable"),
        ("\u00b2", "missing"),
        ("9" * 5000, "missing"),
        ("", "missing"),
        ("a\udcff", "missing"),
        (str(tmp_path), "missing"),
    ):
        with pytest.raises(SourceError) as caught:
            read_source(text)
        assert caught.value.problem == problem and Path(text).name in str(caught.value)


def test_a_picture_is_one_frame(tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", np.full((4, 6, 3), 9, np.uint8))
    (shot,) = frames(Picture(tmp_path / "a.png"), never)
    assert shot.is_still and shot.image.shape == (4, 6, 3)
    (tmp_path / "a.png").write_bytes(b"damaged")
    with pytest.raises(SourceError, match=r"picture cannot be read.*a\.png") as caught:
        next(frames(Picture(tmp_path / "a.png"), never))
    assert caught.value.problem == "unreadable"


def test_a_video_starts_again_and_its_time_goes_on(tmp_path: Path) -> None:
    shots = list(islice(frames(Video(clip(tmp_path / "a.mp4")), never), 15))
    times = [shot.timestamp_ms for shot in shots]
    assert times == sorted(times) and len(set(times)) == 15
    assert np.abs(shots[0].image.astype(int) - shots[6].image).max() < 4


@pytest.mark.parametrize("content", [b"", b"no video at all", b"\0" * 4000])
def test_a_video_that_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        next(frames(Video(path), never))
    assert caught.value.problem == "unreadable" and "a.mp4" in str(caught.value)


def test_a_video_that_is_cut_off_is_said_to_be(tmp_path: Path) -> None:
    path = clip(tmp_path / "a.avi", 40)
    path.write_bytes(path.read_bytes()[:9000])
    with pytest.raises(SourceError, match="video"):
        for _ in zip(range(100), frames(Video(path), never), strict=False):
            pass


def test_frames_end_when_they_are_no_longer_wanted() -> None:
    wanted = iter([False] * 4 + [True] * 100)
    assert len(list(frames(Sample("drawing"), lambda: next(wanted)))) < 6


class FakeReader:
    """A camera of so many frames, which may then be gone."""

    left: int

    def __init__(self, number: int) -> None:
        if self.left <= 0:
            raise kits.ImageError("camera cannot be opened")

    def __enter__(self) -> FakeReader:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        while type(self).left > 0:
            type(self).left -= 1
            image = np.zeros((4, 6, 3), np.uint8)
            image[:, 0] = 255
            yield image, 0.0


def camera(monkeypatch: pytest.MonkeyPatch, count: int, is_there: bool) -> Iterator[Shot]:
    reader = type("Reader", (FakeReader,), {"left": count})
    monkeypatch.setattr(sources, "VideoReader", reader)

    def answer(number: int) -> bool:
        return is_there

    monkeypatch.setattr(sources, "_is_there", answer)
    return frames(Camera(0), never)


def test_a_camera_that_is_missing_or_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for is_there, problem, words in (
        (False, "missing", "no camera 0"),
        (True, "in use", "another program"),
    ):
        with pytest.raises(SourceError, match=words) as caught:
            next(camera(monkeypatch, 0, is_there))
        assert caught.value.problem == problem


def test_a_camera_that_is_unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    shots = camera(monkeypatch, 3, is_there=False)
    seen = [next(shots) for _ in range(3)]
    # A mirror: what is on the left is seen on the right.
    assert seen[0].image[0, -1, 0] == 255 and seen[0].image[0, 0, 0] == 0
    assert [shot.timestamp_ms for shot in seen] == sorted(shot.timestamp_ms for shot in seen)
    with pytest.raises(SourceError, match="no more pictures") as caught:
        next(shots)
    assert caught.value.problem == "unplugged"


class FakeCapture:
    """cv2.VideoCapture of a camera: what its driver answers, one after another; None: no frame."""

    answers: list[Any]
    opened: int
    released: int

    def __init__(self, source: object) -> None:
        """A camera's number."""

    def isOpened(self) -> bool:
        type(self).opened += bool(self.answers)
        return bool(self.answers)

    def read(self) -> tuple[bool, Any]:
        answer = type(self).answers.pop(0) if self.answers else None
        return answer is not None, answer

    def get(self, what: int) -> float:
        return 0.0

    def release(self) -> None:
        type(self).released += 1


@pytest.mark.parametrize(
    ("answers", "is_there", "shown", "problem"),
    [
        ([], True, 0, "in use"),
        ([], False, 0, "missing"),
        ([None], True, 0, "in use"),
        ([1, 1, None], False, 2, "unplugged"),
        # A hub that stumbles: it is opened again, and its time goes on.
        ([1, None, 1, 1, None], True, 3, "unplugged"),
    ],
)
def test_what_a_driver_may_answer(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], is_there: bool, shown: int, problem: str
) -> None:
    """Through OpenCV's interface and our reader; no camera is needed."""
    import cv2

    frame = np.full((4, 6, 3), 70, np.uint8)
    script = [None if each is None else frame for each in answers]
    capture: Any = type("Capture", (FakeCapture,), {"answers": script, "opened": 0, "released": 0})
    monkeypatch.setattr(cv2, "VideoCapture", capture)

    def answer(number: int) -> bool:
        return is_there

    monkeypatch.setattr(sources, "_is_there", answer)
    found: list[Shot] = []
    with pytest.raises(SourceError) as caught:
        for shot in frames(Camera(0), never):
            found.append(shot)
    assert (len(found), caught.value.problem) == (shown, problem)
    # The driver is let go of each time that it opened.
    assert capture.released == capture.opened
    times = [shot.timestamp_ms for shot in found]
    assert times == sorted(times)


@NEEDS_MODELS
def test_the_kits_see_the_drawn_figure() -> None:
    seen: dict[str, set[tuple[str, ...]]] = {gesture: set() for gesture in GESTURES}
    with kits.GestureRecognizer("video") as recognizer:
        for time_s in np.arange(0, len(GESTURES) * (HOLD_S + MAKE_S), 0.1).tolist():
            number, passed_s = divmod(time_s, HOLD_S + MAKE_S)
            hands = recognizer.recognize(draw(time_s), time_s * 1e3)
            if 0.5 < passed_s < HOLD_S:
                seen[GESTURES[int(number)]].add(hands.gestures)
    assert seen == {gesture: {(gesture,)} for gesture in GESTURES}
    image = draw(1.0)
    assert len(kits.detect_faces(image)) == 1
    assert 0.25 < kits.segment_portrait(image).coverage < 0.6
    assert 0.03 < kits.segment_hair(image).coverage < 0.3


def test_samples_move() -> None:
    for kind in ("portrait", "drawing"):
        seen = [image for image, _ in islice(sample_frames(kind), 12)]
        assert all(image.shape == (480, 640, 3) and image.dtype == np.uint8 for image in seen)
        assert np.abs(seen[0].astype(int) - seen[-1]).mean() > 0.1
