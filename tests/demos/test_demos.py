"""Every demo runs without a screen, and what it prints is true."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from palmkit import kits
from palmkit.engine import load
from palmkit.kits.kit import shipped_model
from palmkit.kits.video import VideoWriter

DEMOS = Path(__file__).parents[2] / "demos"

needs_model = pytest.mark.skipif(
    not shipped_model("face_detector").is_file(),
    reason="models/face_detector/face_detector.palm has not been made here",
)


def run(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMOS / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@needs_model
def test_face_photo(tmp_path: Path) -> None:
    done = run("face_photo.py", "-o", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [picture["file"] for picture in found] == ["astronaut", "grace_hopper"]
    assert len(found[0]["faces"]) == 1 and found[1]["faces"]
    for name in ("astronaut", "grace_hopper"):
        drawn = kits.read_image(tmp_path / "demo" / f"{name}.png")
        assert drawn.shape[:2] == {"astronaut": (512, 512), "grace_hopper": (600, 512)}[name]


@needs_model
def test_face_window_without_a_window(tmp_path: Path) -> None:
    import skimage.data

    done = run("face_window.py", "--source", "astronaut", "--headless", "--frames", 3)
    assert done.returncode == 0, done.stderr
    assert [line.split(",")[0] for line in done.stdout.splitlines()] == [
        f"frame {index}: 1 found" for index in range(3)
    ]
    with VideoWriter(tmp_path / "clip.mp4", 30) as writer:
        for _ in range(4):
            writer.write(kits.read_image(skimage.data.astronaut()))  # type: ignore[no-untyped-call]
    done = run("face_window.py", "--source", tmp_path / "clip.mp4", "--headless", "--frames", 3)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3


@needs_model
def test_face_window_says_what_is_wrong(tmp_path: Path) -> None:
    for source, message in [("99", "camera cannot be opened: 99"), ("no.mp4", "no such file")]:
        done = run("face_window.py", "--source", source, "--headless")
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1 and message in done.stderr


@pytest.mark.skipif(
    not shipped_model("portrait").is_file(),
    reason="models/portrait/portrait.palm has not been made here",
)
def test_learn_textures(tmp_path: Path) -> None:
    done = run("learn_textures.py", "-o", tmp_path / "textures.palm")
    assert done.returncode == 0, done.stderr
    right, of = done.stdout.splitlines()[-1].split()[:3:2]
    assert of == "60" and int(right) >= 50
    assert load(tmp_path / "textures.palm").metadata["labels"] == "brick\ngrass\ngravel"
