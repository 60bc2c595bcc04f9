"""Kits on the frames of a camera: a window, a video, JSON, and how they end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.engine.errors import PalmError
from palmkit.kits import live
from palmkit.kits.cli import camera
from palmkit.kits.cli.job import Frames, Job
from palmkit.kits.image import Image
from palmkit.kits.results import Faces
from palmkit.kits.video import VideoReader
from tests.kits.conftest import picture
from tests.kits.test_live import Screen

FRAME = picture(320, 640, (0, 64, 96, 32))


class Camera:
    """Gives a frame so many times; before frame n it calls `at[n]`."""

    frames_per_s = 30.0

    def __init__(self, frames: int, at: dict[int, Callable[[], None]] | None = None) -> None:
        self._frames, self._at = frames, at or {}
        self.is_open = False

    def __enter__(self) -> Camera:
        self.is_open = True
        return self

    def __exit__(self, *error: object) -> None:
        self.is_open = False

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        for number in range(self._frames):
            self._at.get(number, lambda: None)()
            yield FRAME, 0.0


def ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def opens(patch: pytest.MonkeyPatch, seen: Camera, window: Screen | None = None) -> None:
    """Let this be the camera, and this the window; None: there is no screen."""

    def opened(number: int) -> Camera:
        return seen

    def screen(title: str) -> Screen:
        if window is None:
            raise PalmError("no window can be opened: no screen is here")
        return window

    patch.setattr(camera, "VideoReader", opened)
    patch.setattr(live, "require_window", screen)


@pytest.fixture
def face(run: Any, red_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command on a camera; `window`: where there is a screen."""
    monkeypatch.chdir(tmp_path)

    def on(seen: Camera, *arguments: object, window: Screen | None = None) -> Any:
        opens(monkeypatch, seen, window)
        before = signal.getsignal(signal.SIGINT)
        options = ("--size", 640, "--model", red_model)
        result = run("face", "--camera", *arguments, *options)
        assert signal.getsignal(signal.SIGINT) == before
        assert not seen.is_open
        return result

    return on


def frames_of(path: str) -> list[Image]:
    with VideoReader(path) as video:
        return [frame for frame, _ in video]


def test_a_window_shows_them_until_it_is_closed(face: Any) -> None:
    screen = Screen(4)
    result = face(Camera(99), window=screen)
    assert (result.code, result.err, screen.closed) == (0, "", 1)
    assert len(screen.shown) == 4 and (screen.shown[0] != FRAME).any()
    first, second = result.out.splitlines()
    assert first.startswith("camera 0: 4 frames, ") and second == "  1 face in 4"
    assert os.listdir() == []


def test_ctrl_c_leaves_a_whole_video(face: Any) -> None:
    result = face(Camera(99, {5: ctrl_c}), "-o", "new/clip.mp4")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("camera 0: 6 frames, ")
    assert os.listdir("new") == ["clip.mp4"]
    assert frames_of("new/clip.mp4")[0].shape == FRAME.shape


def test_a_video_plays_as_fast_as_it_was_taken(face: Any) -> None:
    def slow() -> None:
        time.sleep(0.15)

    assert face(Camera(99, {1: slow, 3: slow, 5: ctrl_c}), "-o", "clip.mp4").code == 0
    with VideoReader("clip.mp4") as video:
        times = [timestamp_ms for _, timestamp_ms in video]
    assert 300 <= times[-1] - times[0] < 3000


def test_a_second_ctrl_c_ends_it_at_once(face: Any) -> None:
    def twice() -> None:
        ctrl_c()
        ctrl_c()

    result = face(Camera(99, {2: twice}), "-o", "clip.mp4")
    assert (result.code, result.out, result.err) == (130, "", "")
    assert os.listdir() == []


def test_json_needs_no_window(face: Any) -> None:
    result = face(Camera(99, {2: ctrl_c}), 3, "--json", window=Screen(1))
    assert (result.code, result.err) == (0, "")
    assert [(line["camera"], line["frame"]) for line in result.lines] == [(3, 0), (3, 1), (3, 2)]
    times = [line["timestamp_ms"] for line in result.lines]
    assert times == sorted(times) and times[0] < times[2]
    assert {line["faces"][0]["id"] for line in result.lines} == {0}


def test_a_window_and_a_video(face: Any) -> None:
    screen = Screen(3)
    assert face(Camera(99), 0, "-o", "clip.mp4", window=screen).code == 0
    assert len(screen.shown) == 3 and len(frames_of("clip.mp4")) >= 1


def test_a_camera_that_ends(face: Any) -> None:
    result = face(Camera(3), "-o", "clip.mp4")
    assert (result.code, result.out) == (1, "")
    assert result.err == "palmkit: the camera gives no more frames: 0\n"
    assert frames_of("clip.mp4")


def test_without_a_screen_it_says_what_to_do(face: Any) -> None:
    result = face(Camera(3))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "palmkit: no window can be opened: no screen is here; -o clip.mp4 writes a video instead,"
        " --json prints what is found\n"
    )


@pytest.mark.parametrize(
    ("devices", "is_readable", "advice"),
    [
        ((), True, ", there is no /dev/video* here"),
        (("/dev/video2",), True, ", there are /dev/video2"),
        (
            ("/dev/video0",),
            False,
            ", /dev/video0 may not be read: is this user in the group video?",
        ),
        (("/dev/video0",), True, ", does another program use /dev/video0?"),
    ],
)
def test_a_camera_that_cannot_be_opened(
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
    devices: tuple[str, ...],
    is_readable: bool,
    advice: str,
) -> None:
    def none(number: int) -> None:
        raise kits.ImageError(f"camera cannot be opened: {number}")

    def found(pattern: str) -> list[str]:
        return list(devices)

    def may_read(device: str) -> bool:
        return is_readable

    monkeypatch.setattr(camera, "VideoReader", none)
    monkeypatch.setattr(camera, "glob", found)
    monkeypatch.setattr(camera, "is_readable", may_read)
    monkeypatch.setattr("sys.platform", "linux")
    result = run("face", "--camera", "--json")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"palmkit: camera cannot be opened: 0{advice}\n"


def test_a_number_that_is_none(run: Any) -> None:
    result = run("face", "--camera", 2**31, "--json")
    assert result.code == 1 and "camera: expected a number from 0 to" in result.err


def test_an_output_that_cannot_be_written_is_said_before(face: Any, tmp_path: Path) -> None:
    Path("file").touch()
    result = face(Camera(1), "-o", "file/clip.mp4", window=Screen(9))
    assert result.code == 1 and "not a directory" in result.err


def test_an_error_within_a_frame(face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(9)
    result = face(Camera(9), "--roi", "9999,0,5,5", "-o", "clip.mp4", window=screen)
    assert result.code == 1 and "roi: lies outside" in result.err
    assert (os.listdir(), screen.closed) == ([], 1)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("portrait", ()),
        ("portrait", ("--background", "#0000ff")),
        ("hair", ()),
        ("gesture", ()),
        ("tryon", ("--lipstick", "ruby")),
        ("face", ("--mesh", "--rotation", "90", "--flip", "horizontal")),
    ],
)
def test_each_kit(
    run: Any, monkeypatch: pytest.MonkeyPatch, command: str, options: tuple[str, ...]
) -> None:
    screen = Screen(2)
    opens(monkeypatch, Camera(9), screen)
    result = run(command, "--camera", *options)
    assert (result.code, result.err) == (0, "")
    height, width = FRAME.shape[:2]
    wanted = (width, height, 3) if "90" in options else FRAME.shape
    assert [each.shape for each in screen.shown] == [wanted] * 2


def test_a_long_video_is_told_in_few_lines() -> None:
    told = Frames(Job(nullcontext), "clip", {}, None)
    for count in range(30):
        rows = np.zeros((count % 12, 4), np.float32)
        told.add(Faces(9, 9, rows, rows[:, 0], np.zeros((len(rows), 5, 2), np.float32)), 0.001)
    first, *lines, last = told.summary()
    assert first == "clip: 30 frames, 1.0 ms each" and last == "  others in 8"
    assert len(lines) == 8 and lines[0] == "  no faces in 3"
