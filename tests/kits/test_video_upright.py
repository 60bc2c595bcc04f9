"""Frames come upright, however the camera was held, and stay so in what is written."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("av", reason="needs PyAV (extra video)")

from palmkit.kits.image import Image
from palmkit.kits.video import VideoReader
from palmkit.kits.video.upright import Turn, turn_of
from tests.kits.made_videos import make
from tests.kits.test_video_times import copied

CORNERS = ((220, 40, 40), (40, 200, 40), (60, 60, 230), (220, 220, 220))


def corners(height: int = 48, width: int = 80) -> Image:
    """A picture with another colour in each corner: red, green; blue, white."""
    image = np.zeros((height, width, 3), np.uint8)
    for number, colour in enumerate(CORNERS):
        rows = slice(0, height // 2) if number < 2 else slice(height // 2, None)
        columns = slice(0, width // 2) if number % 2 == 0 else slice(width // 2, None)
        image[rows, columns] = colour
    return image


def read(path: Path) -> Image:
    with VideoReader(path) as video:
        frame, _ = next(iter(video))
    return frame


def same(one: Image, other: NDArray[np.uint8]) -> bool:
    """Whether pictures are equal but for what compression and edges lose."""
    if one.shape != other.shape:
        return False
    return bool(np.median(np.abs(one.astype(int) - other)) <= 4)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv"])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_recordings_of_a_turned_camera_come_upright(
    tmp_path: Path, suffix: str, quarters: int
) -> None:
    # Degrees counterclockwise by which a player turns the frames.
    source = make(
        tmp_path / f"a{suffix}", [0.0, 0.04], images=[corners()] * 2, rotation=90 * quarters
    )
    upright = np.rot90(corners(), quarters)
    assert same(read(source), upright)
    copied(source, tmp_path / "b.mp4")
    assert same(read(tmp_path / "b.mp4"), upright)


@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_recordings_of_a_turned_camera_come_upright_without_pyav(
    tmp_path: Path, quarters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "a.mp4", [0.0, 0.04], images=[corners()] * 2, rotation=90 * quarters)
    monkeypatch.setitem(sys.modules, "av", None)
    frame = read(source)
    upright = np.rot90(corners(), quarters)
    assert frame.shape == upright.shape
    assert np.median(np.abs(frame.astype(int) - upright)) <= 12


@pytest.mark.parametrize("flip", ["hflip", "vflip"])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3])
def test_mirrored_recordings(tmp_path: Path, quarters: int, flip: str) -> None:
    source = make(
        tmp_path / "a.mp4", [0.0], images=[corners()], rotation=90 * quarters, flips={flip: True}
    )
    turned = np.rot90(corners(), quarters)
    assert same(read(source), turned[:, ::-1] if flip == "hflip" else turned[::-1])


def matrix(a: float, b: float, c: float, d: float) -> bytes:
    """A display matrix: int32, 16.16, and 2.30 in the last column."""
    return np.round(
        np.array([[a, b, 0], [c, d, 0], [0, 0, 1 << 14]]) * (1 << 16)
    ).astype(np.int32).tobytes()  # fmt: skip


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("upside_down", [False, True])
def test_each_matrix_puts_points_where_it_says(
    transposed: bool, mirrored: bool, upside_down: bool
) -> None:
    turn = Turn(transposed, mirrored, upside_down)
    across, down = -1 if mirrored else 1, -1 if upside_down else 1
    given = matrix(0, down, across, 0) if transposed else matrix(across, 0, 0, down)
    assert turn_of(given) == turn
    # The pixel that is alone in its corner lands where the matrix puts it.
    image = np.zeros((3, 5, 3), np.uint8)
    image[0, 0] = 255
    (a, b), (c, d) = np.frombuffer(given, np.int32).reshape(3, 3)[:2, :2] // (1 << 16)
    shown = turn.apply(image)
    ys, xs = np.nonzero(shown[..., 0])
    right, below = a * 1 + c * 1 < 0, b * 1 + d * 1 < 0
    assert (xs[0] > 0, ys[0] > 0) == (right, below)
    assert shown.shape[:2] == ((5, 3) if transposed else (3, 5))


@pytest.mark.parametrize("data", [b"", bytes(35), bytes(36), matrix(0.9, 0.1, -0.1, 0.9)])
def test_what_is_no_quarter_turn_changes_nothing(data: bytes) -> None:
    image = corners()
    assert turn_of(data).apply(image) is image
