"""Reading and writing videos, with PyAV and without it."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from palmkit.engine.errors import ImageError
from palmkit.kits.video import CODECS, VideoReader, VideoWriter, messages, pyav_files
from palmkit.kits.video.clock import Clock, Grid
from palmkit.kits.video.overlap import Ahead, Behind
from tests.kits.conftest import picture

LIBRARIES = ("PyAV", "OpenCV")


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The library that videos are read and written by."""
    name: str = request.param
    if name == "PyAV":
        pytest.importorskip("av", reason="needs PyAV (extra video)")
    else:
        without_pyav(monkeypatch)
    return name


def without_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it be missing, and nothing be told yet."""
    monkeypatch.setitem(sys.modules, "av", None)
    monkeypatch.setattr(messages, "_told", set[str]())


def write(path: Path, frames: int = 20) -> None:
    with VideoWriter(path, 25) as writer:
        for index in range(frames):
            writer.write(picture(96, 128, (index % 3, 10 + index, 20, 40)))


@pytest.mark.parametrize("suffix", sorted(CODECS))
def test_written_videos_read_back(library: str, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"clip{suffix}"
    write(path)
    with VideoReader(path) as video:
        assert video.frames_per_s == pytest.approx(25)
        assert video.frames == 20
        read = list(video)
    assert len(read) == 20
    np.testing.assert_allclose([ms for _, ms in read], np.arange(20) * 40, atol=0.01)
    for index, (frame, _) in enumerate(read):
        assert frame.shape == (96, 128, 3) and frame.dtype == np.uint8
        assert frame.flags.c_contiguous and frame.flags.writeable
        assert frame[40, 30 + index].argmax() == index % 3
    assert os.listdir(tmp_path) == [path.name]


def test_nothing_is_left_of_a_video_that_fails(library: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write(path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stop"), VideoWriter(path, 25) as writer:
        writer.write(picture(96, 128))
        raise RuntimeError("stop")
    with pytest.raises(ImageError, match="video frame: expected"), VideoWriter(path, 25) as writer:
        writer.write(picture(96, 128))
        writer.write(picture(96, 130))
    with pytest.raises(KeyboardInterrupt), VideoWriter(path, 25) as writer:
        for _ in range(9):
            writer.write(picture(96, 128))
        raise KeyboardInterrupt
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["clip.mp4"]


def test_without_a_frame_there_is_no_file(library: str, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4", 25):
        pass
    assert not os.listdir(tmp_path)


def test_what_is_no_video(library: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"no such file: .*none.mp4"):
        VideoReader(tmp_path / "none.mp4")
    for name, content in (
        ("text.mp4", b"not a video"),
        ("empty.mp4", b""),
        ("zero.avi", bytes(99)),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ImageError, match=rf"not a video: .*{name}"):
            VideoReader(path)
        assert pyav_files.version() == 0 or library == "PyAV"
    with pytest.raises(ImageError, match="camera cannot be opened: 99"):
        VideoReader(99)
    with pytest.raises(ImageError, match="no video format has this suffix"):
        VideoWriter(tmp_path / "a.gif", 25)
    with pytest.raises(ImageError, match=r"no such file: .*none.mp4"):
        VideoWriter(tmp_path / "a.mp4", 25, audio_from=tmp_path / "none.mp4")
    with pytest.raises(ImageError, match=r"cannot be written, no such file or directory: .*a.mp4"):
        write(tmp_path / "none" / "a.mp4")
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(ImageError, match=r"cannot be written, is a directory: .*folder.mp4"):
        write(tmp_path / "folder.mp4")


@pytest.mark.parametrize("rate", [0, -1, 1e-9, float("nan"), float("inf"), 1001])
def test_what_is_no_rate(tmp_path: Path, rate: float) -> None:
    with pytest.raises(ImageError, match="frames_per_s: expected 0.001 to 1000, got"):
        VideoWriter(tmp_path / "a.mp4", rate)


@pytest.mark.parametrize("name", ["家 é.mp4", "b\udcff.mp4", "http:c|d.mp4", "-.mp4", "%03d.mp4"])
def test_any_name(library: str, tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 3)
    with VideoReader(tmp_path / name) as video:
        assert len(list(video)) == 3
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("shape", [(95, 127), (1, 1), (95, 128), (96, 1), (3, 2)])
@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".avi"])
def test_odd_sides_gain_a_pixel(
    library: str, tmp_path: Path, shape: tuple[int, int], suffix: str
) -> None:
    frame = np.full((*shape, 3), (30, 60, 200), np.uint8)
    height, width = (side + side % 2 for side in shape)
    if library == "OpenCV" and min(shape) < 16:
        pytest.skip("OpenCV writes none that are so small")
    with VideoWriter(tmp_path / f"a{suffix}", 25) as writer:
        for _ in range(3):
            writer.write(frame)
    with VideoReader(tmp_path / f"a{suffix}") as video:
        read = [frame for frame, _ in video]
    assert [each.shape for each in read] == [(height, width, 3)] * 3
    if library == "PyAV":
        assert np.abs(read[0].astype(int) - (30, 60, 200)).max() <= 4


def test_gray_frames(library: str, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 25) as writer:
        writer.write(np.full((48, 64), 130, np.uint8))
    with VideoReader(tmp_path / "a.mp4") as video:
        ((frame, _),) = video
    # Three of MPEG-4, and one of its colours.
    assert np.abs(frame.astype(int) - 130).max() <= 4


def test_frames_may_change_once_they_are_written(library: str, tmp_path: Path) -> None:
    frame = np.zeros((48, 64, 3), np.uint8)
    with VideoWriter(tmp_path / "a.mp4", 25) as writer:
        for index in range(8):
            frame[:] = 30 * index
            writer.write(frame)
        frame[:] = 255
    with VideoReader(tmp_path / "a.mp4") as video:
        means = [frame.mean() for frame, _ in video]
    assert means == pytest.approx([30 * index for index in range(8)], abs=3)


def test_a_second_iteration_goes_on_and_ends(library: str, tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", 10)
    with VideoReader(tmp_path / "a.mp4") as video:
        next(iter(video))
        assert len(list(video)) == 9
        with pytest.raises(ImageError, match=r"at its end or closed, open it anew: .*a.mp4"):
            list(video)


def test_nothing_waits_for_what_is_over(library: str, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 25) as writer:
        writer.write(picture(48, 64))
    for _ in range(9):
        with pytest.raises(ImageError, match=r"the video is finished already: .*a.mp4"):
            writer.write(picture(48, 64))
    video = VideoReader(tmp_path / "a.mp4")
    frames = iter(video)
    video.close()
    video.close()
    with pytest.raises(ImageError, match="at its end or closed"):
        next(frames)


def test_a_truncated_video_is_said_to_be(library: str, tmp_path: Path) -> None:
    for suffix in CODECS:
        path = tmp_path / f"clip{suffix}"
        with VideoWriter(path, 25) as writer:
            for index in range(60):
                writer.write(np.random.default_rng(index).integers(0, 99, (48, 64, 3), np.uint8))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
        with (
            pytest.raises(ImageError, match=rf"(not a video|damaged|no frame).*{path.name}"),
            VideoReader(path) as video,
        ):
            assert len(list(video)) < 60


def test_without_pyav_a_warning_says_what_is_lacking_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without_pyav(monkeypatch)
    with caplog.at_level(logging.INFO, "palmkit.kits"):
        for name in ("a.mp4", "b.mp4"):
            write(tmp_path / name, 3)
            with VideoReader(tmp_path / name) as video:
                assert len(list(video)) == 3
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "INFO"]
    assert "no sound" in told[0][1] and "browsers" in told[0][1]
    assert all("pip install 'palmkit[video]'" in message for _, message in told)


def test_an_old_pyav_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("av", reason="needs PyAV (extra video)")
    assert pyav_files.version() >= pyav_files.OLDEST
    monkeypatch.setattr("av.__version__", "12.3.0")
    assert pyav_files.version() == 0


def test_with_one_frame_rate_gaps_are_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_pyav(monkeypatch)
    with VideoWriter(tmp_path / "a.avi", 10) as writer:
        for index, timestamp_ms in enumerate((0, 100, 500, 610)):
            writer.write(np.full((48, 64, 3), 60 * index, np.uint8), timestamp_ms)
    with VideoReader(tmp_path / "a.avi") as video:
        read = [round(float(frame.mean()) / 60) for frame, _ in video]
    assert read == [0, 1, 1, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((None, None, None), (0, 0.1, 0.2)),
        ((500, 700, None), (0, 0.2, 0.3)),
        ((0, 40, 40, 30, 80), (0, 0.04, 0.04, 0.04, 0.08)),
        ((0, 4000, 0, 40), (0, 4.0, 4.1, 4.14)),
        ((None, 9000, 9040), (0, 0.1, 0.14)),
        ((1.7e12, 1.7e12 + 40), (0, 0.04)),
    ],
)
def test_times_never_decrease(given: tuple[float | None, ...], expected: tuple[float, ...]) -> None:
    clock = Clock(10, is_absolute=False)
    assert [clock.place(each) for each in given] == pytest.approx(list(expected))


def test_times_of_a_sound_are_kept() -> None:
    clock = Clock(10, is_absolute=True)
    assert [clock.place(each) for each in (-20, 500, 540)] == pytest.approx([0, 0.5, 0.54])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e300, "1", [1], 1j])
def test_what_is_no_time(tmp_path: Path, bad: object) -> None:
    with (
        pytest.raises(ImageError, match="timestamp_ms: expected a number of milliseconds"),
        VideoWriter(tmp_path / "a.mp4", 25) as writer,
    ):
        writer.write(picture(48, 64), cast(float, bad))
    assert not os.listdir(tmp_path)


def test_places_of_a_grid() -> None:
    grid = Grid(10)
    times_s = (0, 0.1, 0.11, 0.12, 0.5, 0.52, 1e9, 1e9 + 0.1)
    assert [grid.place(each) for each in times_s] == [0, 1, 2, 3, 5, 6, 606, 607]


def test_items_are_made_ahead_but_not_many() -> None:
    made: list[int] = []

    def make() -> Iterator[int]:
        for index in range(50):
            made.append(index)
            yield index

    ahead = Ahead(make(), 3)
    assert next(ahead) == 0
    until_s = time.monotonic() + 10
    while len(made) < 4 and time.monotonic() < until_s:
        time.sleep(0.01)
    time.sleep(0.05)
    # One was taken, and three wait.
    assert len(made) == 4
    assert list(ahead) == list(range(1, 50))
    assert list(ahead) == []
    ahead.stop()


def test_errors_of_the_other_thread_come_out() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ImageError("broken")

    ahead = Ahead(failing(), 3)
    assert next(ahead) == 1
    with pytest.raises(ImageError, match="broken"):
        next(ahead)

    def fail(item: int) -> None:
        raise ImageError(f"broken at {item}")

    behind = Behind(fail, 2)
    with pytest.raises(ImageError, match="broken at 0"):
        for index in range(100):
            behind.put(index)
    with pytest.raises(ImageError, match="broken at 0"):
        behind.finish()


def test_threads_end_with_what_is_dropped(library: str, tmp_path: Path) -> None:
    write(tmp_path / "a.mp4", 60)
    before = threading.active_count()
    for _ in VideoReader(tmp_path / "a.mp4"):
        break
    writer = VideoWriter(tmp_path / "b.mp4", 25)
    writer.write(picture(48, 64))
    del writer
    gc.collect()
    until_s = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until_s:
        time.sleep(0.01)
    assert threading.active_count() == before
    assert os.listdir(tmp_path) == ["a.mp4"]


WITHOUT = """
import sys
if sys.argv[2] == "OpenCV":
    sys.modules["av"] = None
"""
FULL_DISK = (
    WITHOUT
    + """
import resource
import numpy as np
from palmkit.kits import ImageError, write_image
from palmkit.kits.video import VideoWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), dtype=np.uint8)
try:
    if sys.argv[1].endswith(".png"):
        write_image(sys.argv[1], noise)
    else:
        with VideoWriter(sys.argv[1], 25) as writer:
            for frame in range(30):
                writer.write(np.roll(noise, 37 * frame, axis=0))
except ImageError as error:
    print(error)
"""
)


@pytest.mark.skipif(os.name != "posix", reason="needs a limit on the size of files")
@pytest.mark.parametrize("library_name", LIBRARIES)
@pytest.mark.parametrize("name", ["a.mp4", "a.avi", "a.mkv", "a.webm", "a.png"])
def test_where_no_more_can_be_written_nothing_is_left(
    tmp_path: Path, name: str, library_name: str
) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / name), library_name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "cannot be written" in done.stdout and name in done.stdout, done.stderr
    assert not os.listdir(tmp_path)


ENDING = (
    WITHOUT
    + """
import os, signal, threading, time
import numpy as np
from palmkit.kits.video import VideoReader, VideoWriter
folder = sys.argv[1]
frame = np.zeros((480, 640, 3), np.uint8)

def write(name, count):
    with VideoWriter(os.path.join(folder, name), 25) as writer:
        for index in range(count):
            frame[:, index * 7 % 600:] = index * 11 % 256
            writer.write(frame)

write("a.mp4", 40)
"""
)


def end_of(script: str, folder: Path, library: str) -> tuple[int, str, str]:
    command = [sys.executable, "-c", ENDING + script, str(folder), library]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stderr.splitlines() if "by OpenCV" not in line]
    return done.returncode, done.stdout, "\n".join(lines)


@pytest.mark.parametrize("library_name", LIBRARIES)
@pytest.mark.parametrize(
    "script",
    [
        "video = VideoReader(folder + '/a.mp4'); next(iter(video))",
        "writer = VideoWriter(folder + '/b.mp4', 25); writer.write(frame); del writer",
        "threading.Thread(target=write, args=('b.mp4', 10**6), daemon=True).start()\n"
        "time.sleep(0.3)",
    ],
    ids=["reading", "writing", "in a daemon thread"],
)
def test_python_ends_quietly_at_any_point(script: str, library_name: str, tmp_path: Path) -> None:
    assert end_of(script, tmp_path, library_name) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("library_name", LIBRARIES)
def test_forked_children_open_videos_of_their_own(library_name: str, tmp_path: Path) -> None:
    script = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
video = VideoReader(folder + "/a.mp4")
frames = iter(video)
next(frames)
writer = VideoWriter(folder + "/b.mp4", 25)
writer.write(frame)
child = os.fork()
if child == 0:
    threading.Timer(20, os._exit, (3,)).start()
    for use in (lambda: next(frames), lambda: writer.write(frame)):
        try:
            use()
        except ValueError as error:
            print(error, flush=True)
    video.close()
    del video, frames, writer
    write("c.mp4", 3)
    with VideoReader(folder + "/c.mp4") as own:
        print(len(list(own)), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(len(list(frames)))
with writer:
    writer.write(frame)
"""
    code, out, err = end_of(script, tmp_path, library_name)
    refused = "a video that was opened before a fork: open it anew in the child"
    assert (code, err) == (0, "")
    first, second, *others = out.splitlines()
    assert first == refused and second.startswith(refused)
    assert others == ["3", "0", "39"]
    assert sorted(os.listdir(tmp_path)) == ["a.mp4", "b.mp4", "c.mp4"]


@pytest.mark.parametrize("library_name", LIBRARIES)
def test_an_interrupt_leaves_nothing(library_name: str, tmp_path: Path) -> None:
    script = """
threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    write("b.mp4", 10**6)
except KeyboardInterrupt:
    print(sorted(os.listdir(folder)))
"""
    assert end_of(script, tmp_path, library_name) == (0, "['a.mp4']\n", "")
