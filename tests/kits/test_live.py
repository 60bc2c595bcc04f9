"""Frames from anywhere, and where they are shown."""

import os
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits import live
from palmkit.kits.image import Image
from palmkit.kits.video import VideoReader
from tests.kits.drawn_hands import scene
from tests.kits.test_own_gestures import HORNS


class Screen:
    """Notes what it shows, and is closed after so many frames."""

    def __init__(self, most: int) -> None:
        self.shown: list[Image] = []
        self.most = most
        self.closed = 0

    def show(self, picture: Image) -> bool:
        self.shown.append(picture)
        return len(self.shown) < self.most

    def close(self) -> None:
        self.closed += 1


def test_the_sample_of_hands_is_what_we_drew() -> None:
    hands = ((220.0, 370.0, HORNS, "right"), (530.0, 370.0, "open_palm", "left"))
    drawn = scene(hands, height=480, width=760, palm=130)
    there = live.sample("hands")
    assert there.shape == drawn.shape
    assert np.abs(there.astype(int) - drawn).mean() < 2


def test_a_sample_moves_and_has_no_end() -> None:
    with live.Live("hands", window=Screen(10**6)) as frames:
        seen = [frame for frame, _ in islice(frames, 8)]
    assert len({frame.shape for frame in seen}) == 1 and all(
        side % 2 == 0 for side in seen[0].shape[:2]
    )
    assert not np.array_equal(seen[0], seen[7])


def test_frames_end_where_the_user_closes_the_window() -> None:
    screen = Screen(3)
    with live.Live("hands", window=screen) as frames:
        for frame, _ in frames:
            frames.show(frame)
    assert (len(screen.shown), screen.closed) == (3, 1)


def test_frames_are_not_shown_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    with live.Live("hands", frames=4, window=Screen(9)) as frames:
        assert len(list(frames)) == 4
    assert waits[0] == 0 and 0.05 < waits[3] <= 0.1


@pytest.mark.parametrize(("frames", "count"), [(None, 1), (5, 5)])
def test_a_picture_stands_still(frames: int | None, count: int, tmp_path: Path) -> None:
    kits.write_image(tmp_path / "a.png", live.sample("hands"))
    with live.Live(
        str(tmp_path / "a.png"), frames=frames, output=tmp_path / "b" / "c.png"
    ) as still:
        times: list[float] = []
        for frame, timestamp_ms in still:
            times.append(timestamp_ms)
            still.show(255 - frame)
    assert times == pytest.approx([number * 1000 / 30 for number in range(count)])
    assert np.array_equal(kits.read_image(tmp_path / "b" / "c.png"), 255 - live.sample("hands"))


def test_a_clip_of_all_that_was_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with live.Live("hands", frames=6, output=tmp_path / "clip.mp4") as frames:
        for frame, _ in frames:
            frames.show(frame)
    with VideoReader(tmp_path / "clip.mp4") as video:
        assert len(list(video)) == 6
    assert capsys.readouterr().out.startswith("6 frames, ")


def test_after_an_error_there_is_no_file(tmp_path: Path) -> None:
    frames = live.Live("hands", frames=6, output=tmp_path / "clip.mp4")
    with pytest.raises(ZeroDivisionError), frames:
        for frame, _ in frames:
            frames.show(frame)
            raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [("99", "camera cannot be opened: 99"), ("no.mp4", "no such file"), ("no.png", "no such file")],
)
def test_sources_that_are_not_there(source: str, message: str) -> None:
    with pytest.raises(kits.ImageError, match=message):
        live.Live(source)


def test_bad_options_end_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--frames", "0"], ["--frames", "x"], ["--frames"]):
        with pytest.raises(SystemExit) as ended:
            live.parser("Shows.").parse_args(words)
        assert ended.value.code == 2
    assert "expected a number of frames, at least 1: 'x'" in capsys.readouterr().err


ENDING = """
import os, signal, sys
from palmkit import kits
from palmkit.kits import live

def program():
    {body}

live.run(program)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals and /dev/full")
@pytest.mark.parametrize(
    ("body", "streams", "code", "err"),
    [
        ("raise kits.PalmError('no\\n \\udcff')", "", 1, "no \\udcff\n"),
        ("open('none/x')", "", 1, "no such file or directory: none/x\n"),
        ("live.Live('hands', output=live.Path('/dev/null/x/y.mp4'))", "", 1,
         "not a directory: /dev/null/x\n"),
        ("print('\\u5bb6\\udcff')", "", 0, ""),
        ("print(1)", ">/dev/full", 1, "palmkit: standard output: no space left on device\n"),
        ("print(1)", ">&-", 0, ""),
        ("raise kits.PalmError('no')", "2>&-", 1, ""),
        ("os.kill(os.getpid(), signal.SIGINT)", "", 130, ""),
        ("sys.exit(3)", "", 3, ""),
    ],
)  # fmt: skip
def test_a_program_ends_as_the_command_does(
    body: str, streams: str, code: int, err: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(ENDING.format(body=body))
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" program.py {streams}', sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (code, err)


@pytest.mark.parametrize("text", ["\u00b2", "\u0663", "-1", "", "9" * 11, "9" * 5000])
def test_what_is_no_number_of_a_camera(text: str) -> None:
    assert live.camera_number(text) is None


def test_an_output_whose_folder_cannot_be_made_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    parser = live.plain_parser("Writes.")
    parser.add_argument("-o", type=live.writable)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["-o", str(tmp_path / "file" / "x" / "y")])
    assert ended.value.code == 2 and "not a directory" in capsys.readouterr().err


WINDOW = """
from palmkit.kits import live
window = live.open_window("PalmKit")
assert window is not None
assert window.show(live.sample("hands")) and window.show(live.sample("hands"))
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
(label,) = QApplication.topLevelWidgets()
assert label.grab().toImage().pixelColor(220, 330).red() > 150
label.activateWindow()
assert QTest.qWaitForWindowActive(label)
QTest.keyClick(label, "q")
assert not window.show(live.sample("hands"))
window.close()
"""


def test_a_window_shows_and_closes_by_a_key() -> None:
    pytest.importorskip("PySide6.QtTest", reason="the window needs PySide6 (extra demos)")
    given = {**os.environ, "QT_QPA_PLATFORM": "offscreen", "DISPLAY": ":none"}
    done = subprocess.run([sys.executable, "-c", WINDOW], capture_output=True, text=True, env=given)
    assert done.returncode == 0, done.stderr


def test_without_a_screen_there_is_no_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert live.open_window("PalmKit") is None
