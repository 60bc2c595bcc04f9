"""Frames have the colours that a file states, and what is written has those of the frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("av", reason="needs PyAV (extra video)")

import av

from palmkit.kits.video import VideoReader, VideoWriter
from palmkit.kits.video.colours import HD_HEIGHT
from tests.kits.made_videos import make, plain

COLOURS = (
    (200, 40, 40), (40, 180, 60), (50, 60, 210), (128, 128, 128), (250, 250, 250), (5, 5, 5),
    (230, 200, 40), (90, 30, 110),
)  # fmt: skip
# A level of limited BT.601 blue chroma is two of blue; and rounding once more, to 8 bits.
NEAR = 3
LIMITED, FULL = 1, 2


def bars(height: int = 64) -> NDArray[np.uint8]:
    """A picture of bars of the colours, each 16 pixels wide."""
    return np.concatenate([plain(height, 16, colour) for colour in COLOURS], axis=1)


def seen(path: Path) -> NDArray[np.int64]:
    """The colours in the middles of the bars, in the first frame."""
    with VideoReader(path) as video:
        frame, _ = next(iter(video))
    return frame[frame.shape[0] // 2, 8::16].astype(int)


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv422p", "yuv444p", "yuv420p10le"])
@pytest.mark.parametrize("full", [LIMITED, FULL], ids=["limited", "full"])
@pytest.mark.parametrize("matrix", [1, 5, 6, 9], ids=["BT.709", "BT.470BG", "BT.601", "BT.2020"])
def test_the_colours_that_a_file_states(
    tmp_path: Path, matrix: int, full: int, pixels: str
) -> None:
    path = make(
        tmp_path / "a.mp4", [0.0, 0.04], images=[bars()] * 2, sound=(), pixels=pixels,
        tags={"colorspace": matrix, "color_range": full}, options={"qp": "0"},
    )  # fmt: skip
    assert np.abs(seen(path) - COLOURS).max() <= NEAR


@pytest.mark.parametrize(("height", "matrix"), [(HD_HEIGHT - 2, 5), (HD_HEIGHT, 1)])
def test_what_states_nothing_has_the_colours_of_its_size(
    tmp_path: Path, height: int, matrix: int
) -> None:
    from av.video.reformatter import VideoReformatter

    made = VideoReformatter().reformat(
        av.VideoFrame.from_ndarray(bars(height), "rgb24"),
        format="yuv420p",
        dst_colorspace=matrix,
        dst_color_range=LIMITED,
    )
    # Unspecified.
    made.colorspace, made.color_range = 2, 0
    path = make(tmp_path / "a.mp4", [0.0], images=[made], sound=(), options={"qp": "0"})
    assert np.abs(seen(path) - COLOURS).max() <= NEAR


@pytest.mark.parametrize("matrix", [3, 8, 11, 14])
def test_a_matrix_that_is_not_known_is_guessed(tmp_path: Path, matrix: int) -> None:
    from av.video.reformatter import VideoReformatter

    frame = av.VideoFrame.from_ndarray(bars(), "rgb24")
    made = VideoReformatter().reformat(frame, format="yuv420p", dst_colorspace=5)
    made.colorspace = matrix
    path = make(
        tmp_path / "a.mp4", [0.0], images=[made], sound=(), tags={"colorspace": matrix},
        options={"qp": "0"},
    )  # fmt: skip
    assert np.abs(seen(path) - COLOURS).max() <= NEAR


@pytest.mark.parametrize(
    ("video", "pixels", "suffix"),
    [
        ("ffv1", "yuv420p10le", ".mkv"), ("libvpx-vp9", "yuv420p", ".webm"),
        ("mjpeg", "yuvj420p", ".avi"), ("ffv1", "bgr0", ".mkv"), ("ffv1", "gray", ".mkv"),
        ("prores_ks", "yuv422p10le", ".mov"),
    ],
)  # fmt: skip
def test_other_formats_are_read(tmp_path: Path, video: str, pixels: str, suffix: str) -> None:
    tags: dict[str, int] = {"colorspace": 5, "color_range": FULL} if pixels == "yuvj420p" else {}
    options = {"crf": "4"} if video == "libvpx-vp9" else {}
    images = [bars()] * 2
    path = make(
        tmp_path / f"a{suffix}", [0.0, 0.04], images=images, sound=(), video=video, pixels=pixels,
        tags=tags, options=options,
    )  # fmt: skip
    expected: Any = COLOURS
    if pixels == "gray":
        expected = np.repeat((np.array(COLOURS) @ (0.299, 0.587, 0.114))[:, None], 3, axis=1)
    assert np.abs(seen(path) - expected).max() <= 5


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm", ".avi"])
@pytest.mark.parametrize("height", [64, HD_HEIGHT])
def test_colours_come_back(tmp_path: Path, suffix: str, height: int) -> None:
    path = tmp_path / f"a{suffix}"
    with VideoWriter(path, 25) as writer:
        for _ in range(2):
            writer.write(bars(height))
    # Of compression, too.
    assert np.abs(seen(path) - COLOURS).max() <= NEAR + 2


def test_what_is_written_says_which_colours_it_has(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 25) as writer:
        writer.write(bars())
    with av.open(str(tmp_path / "a.mp4")) as container:
        context = container.streams.video[0].codec_context
        assert (context.colorspace, context.color_range) == (1, LIMITED)
        assert (context.color_primaries, context.color_trc) == (1, 1)
    data = (tmp_path / "a.mp4").read_bytes()
    assert b"colrnclx" in data


def hlg(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return signals of BT.2100's HLG for scene light of 0 to 1."""
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(
        light <= 1 / 12, np.sqrt(3 * light), a * np.log(np.maximum(12 * light - b, b)) + c
    )


def pq(nits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return signals of BT.2100's PQ."""
    powered = (nits / 10_000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * powered) / (1 + 18.6875 * powered)) ** 78.84375


@pytest.mark.parametrize("curve", [16, 18], ids=["PQ", "HLG"])
def test_hdr_is_brought_to_the_range_of_screens(tmp_path: Path, curve: int) -> None:
    from palmkit.kits.video import pyav_files

    if pyav_files.version() < 17:
        pytest.skip("older PyAV cannot")
    # Grays as bright as those of sRGB are on a screen whose white has 203 cd/m2 (BT.2408).
    grays = np.array([32, 64, 96, 128, 160, 192])
    light = np.where(
        grays / 255 <= 0.04045, grays / 255 / 12.92, ((grays / 255 + 0.055) / 1.055) ** 2.4
    )
    nits = light * 203
    signal = pq(nits) if curve == 16 else hlg((nits / 1000) ** (1 / 1.2))
    frame = av.VideoFrame(16 * len(grays), 64, "yuv420p10le")
    for number, plane in enumerate(frame.planes):
        row = np.repeat(64 + signal * 876, 16) if number == 0 else np.full(plane.width, 512)
        padded = np.zeros((plane.height, plane.line_size // 2), np.uint16)
        padded[:, : plane.width] = np.round(row)
        plane.update(padded.tobytes())
    tags = {"colorspace": 9, "color_range": LIMITED, "color_trc": curve, "color_primaries": 9}
    for name, value in tags.items():
        setattr(frame, name, value)
    path = make(
        tmp_path / "a.mp4", [0.0], images=[frame], sound=(), pixels="yuv420p10le", tags=tags,
        options={"qp": "0"},
    )  # fmt: skip
    assert np.abs(seen(path) - grays[:, None]).max() <= 12
