"""Damaged videos end in one line, or in what can be read of them, and soon."""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="needs PyAV (extra video)")

import av

from palmkit.engine.errors import ImageError
from palmkit.kits.video import VideoReader
from tests.kits.made_videos import RATE, make, written
from tests.kits.test_video_times import copied

SOURCES: dict[str, dict[str, Any]] = {
    "a.mp4": {"options": {"bf": "2"}, "rotation": 90},
    "b.webm": {"video": "libvpx-vp9", "sound": ("libopus",)},
    "c.avi": {"video": "mpeg4", "sound": ("pcm_s16le",)},
    "d.ts": {"muxer": "mpegts"},
    "e.mkv": {"sound": ("ac3",)},
}
# Nothing takes as long, whatever times the packets have.
LONGEST_S = 20


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("sources")
    times_s = [index / 25 for index in range(20)]
    return [make(folder / name, times_s, **given) for name, given in SOURCES.items()]


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """Data with some bytes changed, a part of noise, without a part, or cut off."""
    changed = bytearray(data)
    begin = int(random.integers(len(data)))
    end = begin + int(random.integers(1, 2000))
    match int(random.integers(4)):
        case 0:
            for _ in range(random.integers(1, 30)):
                changed[random.integers(len(data))] = random.integers(256)
        case 1:
            changed[begin:end] = random.bytes(len(changed[begin:end]))
        case 2:
            del changed[begin:end]
        case _:
            del changed[begin:]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_files(
    sources: list[Path], tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    random = np.random.default_rng(seed)
    for source in sources:
        path = tmp_path / f"damaged{source.suffix}"
        path.write_bytes(damaged(source.read_bytes(), random))
        target = tmp_path / f"target{('.mp4', '.webm', '.mkv')[seed % 3]}"
        began = time.monotonic()
        try:
            copied(path, target)
        except ImageError as error:
            assert str(path) in str(error) or str(target) in str(error)
            assert len(str(error).splitlines()) == 1
            assert sorted(os.listdir(tmp_path)) == [path.name]
        else:
            target.unlink()
            path.unlink()
        assert time.monotonic() - began < LONGEST_S
        for leftover in tmp_path.iterdir():
            leftover.unlink()


def test_a_recording_without_an_index_is_said_to_be_unfinished(
    sources: list[Path], tmp_path: Path
) -> None:
    data = sources[0].read_bytes()
    (tmp_path / "a.mp4").write_bytes(data[: data.index(b"moov") - 4])
    with pytest.raises(ImageError, match=r"damaged, or its recording was not finished.*: .*a.mp4"):
        VideoReader(tmp_path / "a.mp4")


def test_an_unknown_format_is_said_to_be(sources: list[Path], tmp_path: Path) -> None:
    data = sources[0].read_bytes().replace(b"avc1", b"xyz9")
    (tmp_path / "a.mp4").write_bytes(data)
    with pytest.raises(ImageError, match=r"of a format that is not known: .*a.mp4"):
        VideoReader(tmp_path / "a.mp4")


def test_frames_that_are_wrong_are_told_of(
    sources: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = bytearray(sources[0].read_bytes())
    with av.open(str(sources[0])) as container:
        for number, packet in enumerate(container.demux(video=0)):
            if number == 8 and packet.pos is not None:
                data[packet.pos + 4 : packet.pos + packet.size] = bytes(packet.size - 4)
    (tmp_path / "a.mp4").write_bytes(data)
    with VideoReader(tmp_path / "a.mp4") as video:
        assert 15 <= len(list(video)) <= 20
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "the video is damaged, frames are wrong or missing" in record.getMessage()


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
@pytest.mark.parametrize("hours", [1, 20])
def test_times_that_are_far_away_take_no_time(tmp_path: Path, suffix: str, hours: int) -> None:
    path = tmp_path / "a.mkv"
    with written(path) as container:
        stream = container.add_stream("libx264", 25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        track = container.add_stream("pcm_s16le", RATE)
        track.layout = "mono"
        packets: list[Any] = []
        for index in range(50):
            shift_s = hours * 3600 if index >= 25 else 0
            frame = av.VideoFrame(64, 48, "yuv420p")
            frame.pts, frame.time_base = index * 40 + shift_s * 1000, Fraction(1, 1000)
            packets += stream.encode(frame)
            sound = av.AudioFrame.from_ndarray(np.ones((1, 1920), np.int16), "s16", "mono")
            sound.sample_rate, sound.pts = RATE, index * 1920 + shift_s * RATE
            sound.time_base = Fraction(1, RATE)
            packets += track.encode(sound)
        packets += stream.encode(None)
        for packet in sorted(packets, key=lambda each: float(each.dts * each.time_base)):
            container.mux(packet)
    began = time.monotonic()
    target = copied(path, tmp_path / f"b{suffix}")
    assert time.monotonic() - began < LONGEST_S
    with VideoReader(target) as video:
        times = [timestamp_ms for _, timestamp_ms in video]
    assert len(times) == 50
    assert times[-1] - times[24] == pytest.approx(hours * 3.6e6 + 1000, abs=50)
