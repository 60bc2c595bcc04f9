"""Every demo runs without a screen, shows something, and what it prints is true."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import kits
from palmkit.engine import load
from palmkit.kits import live
from palmkit.kits.image import SUFFIXES as PICTURES
from palmkit.kits.video import SUFFIXES as VIDEOS
from palmkit.kits.video import VideoReader, VideoWriter
from tests.demos.driving import NEEDS_MODELS

FOLDER = Path(__file__).parents[2] / "demos"
DEMOS = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")
MOST_LINES = 60
FRAMES = 3
WITHOUT_SCREEN = {
    name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")
}

pytestmark = NEEDS_MODELS


def run(demo: str | Path, folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FOLDER / demo), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=WITHOUT_SCREEN)


def shows(path: Path) -> bool:
    """Whether what a demo wrote holds something to see, to read or to run."""
    if path.suffix in VIDEOS:
        with VideoReader(path) as video:
            return all(frame.std() > 10 for frame, _ in video) and bool(video.frames)
    if path.suffix in PICTURES:
        return bool(kits.read_image(path).std() > 10)
    if path.suffix == ".palm":
        return bool(load(path).outputs)
    return bool(path.read_text().strip())


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def says_where_faces_are(out: str, folder: Path) -> None:
    found = json_lines(out)
    assert [picture["file"] for picture in found] == ["astronaut", "grace_hopper"]
    assert len(found[0]["faces"]) == 1 and found[1]["faces"]
    sizes = [kits.read_image(folder / f"{name['file']}.png").shape[:2] for name in found]
    assert sizes == [(512, 512), (600, 512)]


def finds_a_face_and_what_is_damaged(out: str, folder: Path) -> None:
    assert out.startswith("3 pictures, 1 failed")
    found = {
        each["file"]: each["faces"] for each in json_lines((folder / "found.jsonl").read_text())
    }
    assert {name: len(faces) for name, faces in found.items()} == {"face.png": 1, "hands.png": 0}


def makes_it_smaller(out: str, folder: Path) -> None:
    was, now = map(int, re.findall(r"(\d+) KB", out.splitlines()[-1]))
    assert now < was
    assert all(float(each) > 0.98 for each in re.findall(r"agrees to ([\d.]+)", out))


def learns_a_gesture(out: str, folder: Path) -> None:
    assert "horns: learned from 5 frames" in out
    assert out.splitlines()[-2].endswith("left open_palm, right horns")


def learns_textures(out: str, folder: Path) -> None:
    right, of = map(int, out.splitlines()[-1].split()[:3:2])
    assert of == 60 and right >= 50
    assert load(folder / "textures.palm").metadata["labels"] == "brick\ngrass\ngravel"


def brings_what_is_wanted_forward(out: str, folder: Path) -> None:
    places = [json.loads(each) for each in re.findall(r"at places (\[.*\])", out)]
    assert len(places) == FRAMES and np.mean(places[-1]) < np.mean(places[0]) - 2


def takes_the_release(out: str, folder: Path) -> None:
    first, second = out.splitlines()[:2]
    assert first.startswith("frame 0") and "99.0.0" not in first
    assert second == "frame 1: {'face_detector@stable': '99.0.0'}"


def says_how_long_frames_took(out: str, folder: Path) -> None:
    assert re.match(rf"(.*\n)*{FRAMES} frames, [\d.]+ ms each \(median\), in build", out)


ARGUMENTS: dict[str, tuple[object, ...]] = {
    "hand_gestures": ("--learn", "horns", "--frames", 25),
    "learn_textures": ("--frames", 60),
}
TRUE: dict[str, Callable[[str, Path], None]] = {
    "face_photo": says_where_faces_are,
    "batch_folder": finds_a_face_and_what_is_damaged,
    "compress_model": makes_it_smaller,
    "hand_gestures": learns_a_gesture,
    "learn_textures": learns_textures,
    "rerank_page": brings_what_is_wanted_forward,
    "update_model": takes_the_release,
}


@pytest.mark.parametrize("demo", DEMOS, ids=lambda path: path.stem)
def test_every_demo_runs_without_a_screen(demo: Path, tmp_path: Path) -> None:
    done = run(demo, tmp_path, "--frames", FRAMES, *ARGUMENTS.get(demo.stem, ()))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() and "Traceback" not in done.stderr
    folder = tmp_path / "build" / "demo"
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert all(path.is_relative_to(folder) and shows(path) for path in written)
    assert written or demo.stem == "rerank_page"
    TRUE.get(demo.stem, says_how_long_frames_took)(done.stdout, folder)


@pytest.mark.parametrize("demo", DEMOS, ids=lambda path: path.stem)
def test_every_demo_is_short_and_says_how_to_start_it(demo: Path) -> None:
    text = demo.read_text()
    assert len(text.splitlines()) < MOST_LINES
    assert f"python demos/{demo.name}" in text
    assert "live.parser(" in text or all(f'"--{name}"' in text for name in ("source", "frames"))


def test_a_video_in_a_picture_out(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4", 30) as writer:
        for _ in range(4):
            writer.write(live.sample("face"))
    done = run("face_window.py", tmp_path, "--source", "clip.mp4", "-o", "last.png")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 frames") and shows(tmp_path / "last.png")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("99", "camera cannot be opened: 99"),
        ("no.mp4", "no such file: no.mp4"),
        ("\u00b2", "no such file: \u00b2"),
        ("9" * 300, f"no such file: {'9' * 300}"),
    ],
)
def test_a_demo_says_in_one_line_what_is_wrong(source: str, message: str, tmp_path: Path) -> None:
    done = run("face_window.py", tmp_path, "--source", source)
    assert (done.returncode, done.stderr) == (1, message + "\n")
    assert not list(tmp_path.rglob("*.mp4"))


@pytest.mark.parametrize(
    "demo", [path for path in DEMOS if '"--frames"' in path.read_text()], ids=lambda path: path.stem
)
def test_a_demo_refuses_what_is_no_number_of_frames(demo: Path, tmp_path: Path) -> None:
    done = run(demo, tmp_path, "--frames", -1)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "--frames: expected a number of frames" in done.stderr
