"""Frames keep their times, from files of all kinds and into them."""

from __future__ import annotations

import logging
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="needs PyAV (extra video)")

import av

from palmkit.engine.errors import ImageError
from palmkit.kits import live
from palmkit.kits.video import VideoReader, VideoWriter
from tests.kits.made_videos import BURST_S, FLASHES, frame_at, make, plain, written

# A phone's: mostly 30 a second, but as light and heat have it.
UNEVEN_S = (0, 0.033, 0.067, 0.1, 0.21, 0.243, 0.277, 0.31, 0.55, 0.583, 0.616, 0.9, 0.95)


def times(path: Path) -> list[float]:
    with VideoReader(path) as video:
        return [timestamp_ms for _, timestamp_ms in video]


def copied(source: Path, target: Path, frames: int | None = None) -> Path:
    """Write the frames of a video, all or so many, to another one."""
    with (
        VideoReader(source) as video,
        VideoWriter(target, video.frames_per_s, audio_from=video) as writer,
    ):
        for index, (frame, timestamp_ms) in enumerate(video):
            if index == frames:
                break
            writer.write(frame, timestamp_ms)
    return target


def shown_s(path: Path) -> float:
    """How long the video lasts."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        if stream.duration is None:
            hours, minutes, seconds = stream.metadata["DURATION"].split(":")
            return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        assert stream.time_base is not None
        return float(stream.duration * stream.time_base)


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".webm"])
@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "3"}], ids=["in order", "B-frames"])
def test_uneven_times_are_read_and_written(
    tmp_path: Path, suffix: str, options: dict[str, str]
) -> None:
    source = make(tmp_path / "source.mp4", UNEVEN_S, options=options, sound=(), last_s=0.7)
    assert times(source) == pytest.approx([1e3 * at for at in UNEVEN_S], abs=1e-6)
    target = copied(source, tmp_path / f"target{suffix}")
    exact = 1e-6 if suffix in (".mp4", ".mov") else 0.5
    assert times(target) == pytest.approx([1e3 * at for at in UNEVEN_S], abs=exact)
    # The last frame lasts as long as it did; how long that was, B-frames hide.
    lasted_s = 0.7 if options["bf"] == "0" else UNEVEN_S[-1] / len(UNEVEN_S)
    assert shown_s(target) == pytest.approx(UNEVEN_S[-1] + lasted_s, abs=0.02)


def test_uneven_times_are_read_without_pyav(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "source.mp4", UNEVEN_S, sound=())
    monkeypatch.setitem(sys.modules, "av", None)
    assert times(source) == pytest.approx([1e3 * at for at in UNEVEN_S], abs=0.5)
    copied(source, tmp_path / "target.mp4")
    read = times(tmp_path / "target.mp4")
    # At one rate, frames stand for others that are not there.
    assert len(read) >= len(UNEVEN_S)
    assert read[-1] == pytest.approx(1e3 * UNEVEN_S[-1], abs=1e3 / 13)


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_a_late_video_stays_late(tmp_path: Path, suffix: str) -> None:
    muxer = "mpegts" if suffix == ".ts" else None
    late_s = [0.5 + index / 25 for index in range(20)]
    source = make(tmp_path / f"a{suffix}", late_s, muxer=muxer)
    # In a stream, sound comes first, by what its encoder needs to begin.
    lead_ms = 1024 / 48 if suffix == ".ts" else 0
    expected = [1e3 * at + lead_ms for at in late_s]
    assert times(source) == pytest.approx(expected, abs=0.5)
    assert times(copied(source, tmp_path / "b.mp4")) == pytest.approx(expected, abs=0.5)


def test_a_clock_that_begins_late_begins_at_0(tmp_path: Path) -> None:
    source = make(tmp_path / "a.mp4", shift_s=100.0, sound=())
    expected = [40 * index for index in range(50)]
    assert times(source) == pytest.approx(expected, abs=1e-6)
    assert times(copied(source, tmp_path / "b.mp4")) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("options", [{"bf": "0"}, {"bf": "2"}], ids=["in order", "B-frames"])
def test_what_is_cut_off_at_the_front_is_not_shown(tmp_path: Path, options: dict[str, str]) -> None:
    source = make(tmp_path / "a.mp4", shift_s=-0.32, options=options)
    with VideoReader(source) as video:
        assert video.frames == pytest.approx(42, abs=1)
        read = list(video)
    assert [ms for _, ms in read] == pytest.approx([40 * index for index in range(42)], abs=1e-6)
    for frame, timestamp_ms in read:
        assert abs(frame.mean() - frame_at(timestamp_ms / 1e3 + 0.32).mean()) < 4
    assert times(copied(source, tmp_path / "b.mp4")) == [ms for _, ms in read]


def test_a_video_that_is_left_early_ends_there(tmp_path: Path) -> None:
    source = make(tmp_path / "a.mp4")
    target = copied(source, tmp_path / "b.mp4", frames=15)
    assert times(target) == pytest.approx([40 * index for index in range(15)])
    with av.open(str(target)) as container:
        assert container.duration == pytest.approx(0.6e6, abs=0.03e6)


def test_without_times_frames_follow_each_other(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 30000 / 1001) as writer:
        for _ in range(40):
            writer.write(plain(48, 64))
    assert times(tmp_path / "a.mp4") == pytest.approx([k * 1001 / 30 for k in range(40)], abs=1e-6)
    with VideoReader(tmp_path / "a.mp4") as video:
        assert video.frames_per_s == pytest.approx(30000 / 1001)


def test_times_of_all_kinds_are_written_in_order(tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "a.mp4", 25) as writer:
        for timestamp_ms in (1e12, 1e12 + 40, 1e12 + 40, 1e12 + 35, 1e12 + 90, 0, np.float32(40)):
            writer.write(plain(48, 64), float(timestamp_ms))
    read = times(tmp_path / "a.mp4")
    assert read == pytest.approx([0, 40, 40, 40, 90, 130, 170], abs=0.5)
    assert len(set(read)) == 7


def test_an_avi_has_one_rate(tmp_path: Path) -> None:
    source = make(tmp_path / "a.mp4", UNEVEN_S, sound=())
    target = copied(source, tmp_path / "b.avi")
    with VideoReader(target) as video:
        rate = video.frames_per_s
        read = [timestamp_ms for _, timestamp_ms in video]
    assert len(read) == len(UNEVEN_S)
    assert read[-1] == pytest.approx(1e3 * UNEVEN_S[-1], abs=2e3 / rate)


def test_live_programs_keep_times_and_sound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = make(tmp_path / "a.mp4", UNEVEN_S)
    with live.Live(str(source), output=tmp_path / "b.mp4") as frames:
        for frame, _ in frames:
            frames.show(frame)
    assert times(tmp_path / "b.mp4") == pytest.approx(times(source))
    with av.open(str(tmp_path / "b.mp4")) as container:
        assert len(container.streams.audio) == 1
    capsys.readouterr()


def test_frame_counts_are_about_right(tmp_path: Path) -> None:
    # The sound is longer than the video.
    source = make(tmp_path / "a.mp4", [index / 25 for index in range(10)])
    with VideoReader(source) as video:
        assert video.frames == 10
        assert len(list(video)) == 10


def test_stretched_pixels_are_made_square(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with written(path) as container:
        stream = container.add_stream("libx264", 25)
        stream.width, stream.height, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(4, 3)
        frame = plain(64, 48, (0, 0, 0))
        frame[:, 24:] = 255
        for packet in stream.encode(av.VideoFrame.from_ndarray(frame, "rgb24")):
            container.mux(packet)
        container.mux(stream.encode(None))
    with VideoReader(path) as video:
        ((read, _),) = video
    assert read.shape == (64, 64, 3)
    assert read[32, 28].mean() < 40 and read[32, 36].mean() > 215


def test_a_video_of_too_many_pixels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = make(tmp_path / "a.mp4")
    monkeypatch.setattr("palmkit.kits.video.pyav_reading.MAX_PIXELS", 1000)
    with pytest.raises(ImageError, match=r"64x48 is more than 1000 pixels: .*a.mp4"):
        VideoReader(source)


def test_a_flash_is_where_it_was(tmp_path: Path) -> None:
    source = make(tmp_path / "a.mp4", [index / 50 for index in range(100)], options={"bf": "2"})
    target = copied(source, tmp_path / "b.webm")
    with VideoReader(target) as video:
        for frame, timestamp_ms in video:
            at_s = timestamp_ms / 1e3 + 1e-3
            is_white = any(flash <= at_s < flash + BURST_S for flash in FLASHES)
            assert (frame.mean() > 128) == is_white


def test_nothing_is_told_where_all_is_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        copied(make(tmp_path / "a.mp4"), tmp_path / "b.mp4")
    assert not caplog.records
