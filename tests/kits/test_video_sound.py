"""Sound is taken over into what is written, and stays with the pictures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("av", reason="needs PyAV (extra video)")

import av
from av.stream import Disposition

from palmkit.engine.errors import ImageError
from palmkit.kits.video import VideoReader, VideoWriter, formats
from tests.kits.made_videos import FLASHES, RATE, bursts, hertz, make, plain, sounds, tone, written
from tests.kits.test_video_times import UNEVEN_S, copied

# An encoder's frame, and how finely a burst's begin is heard.
NEAR_S = 0.006


def flashes(path: Path) -> list[float]:
    """When white frames begin, in seconds."""
    found: list[float] = []
    with VideoReader(path) as video:
        was_white = False
        for frame, timestamp_ms in video:
            is_white = bool(frame.mean() > 128)
            if is_white and not was_white:
                found.append(timestamp_ms / 1e3)
            was_white = is_white
    return found


def codecs(path: Path) -> list[str]:
    with av.open(str(path)) as container:
        return [track.codec_context.codec.canonical_name for track in container.streams.audio]


SOURCES: dict[str, dict[str, Any]] = {
    "a.mp4": {},
    "b-frames.mp4": {"options": {"bf": "3", "g": "12"}},
    "trimmed.mp4": {"shift_s": -0.32},
    "late.mp4": {"shift_s": 0.5},
    "stream.ts": {"muxer": "mpegts"},
    "opus.webm": {"video": "libvpx-vp9", "sound": ("libopus",)},
    "pcm.mkv": {"sound": ("pcm_s16le",)},
    "mp3.mkv": {"sound": ("libmp3lame",)},
    "pcm.avi": {"video": "mpeg4", "sound": ("pcm_s16le",)},
    "surround.mov": {"sound": ("ac3",)},
    "gap.mkv": {"sound": ("pcm_s16le",), "silence": [(0.6, 1.1)]},
    "gap.mp4": {"silence": [(0.6, 1.1)]},
    "late sound.mkv": {"sound": ("pcm_s16le",), "silence": [(0, 0.3)]},
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    for name, given in SOURCES.items():
        make(folder / name, **given)
    return folder


H264 = ("libx264", "libopenh264")
HARD = ("trimmed.mp4", "stream.ts", "gap.mkv", "opus.webm")
CASES = [(name, suffix) for name in SOURCES for suffix in (".mp4", ".webm")] + [
    (name, suffix) for name in HARD for suffix in (".mkv", ".mov", ".avi")
]


@pytest.mark.parametrize(("name", "suffix"), CASES)
def test_sound_stays_with_the_pictures(
    sources: Path, tmp_path: Path, name: str, suffix: str
) -> None:
    target = copied(sources / name, tmp_path / f"target{suffix}")
    seen, heard = flashes(sources / name), bursts(sources / name)
    assert len(seen) == len(heard) == len(FLASHES)
    # With one frame rate, pictures are up to half a frame from their time.
    assert flashes(target) == pytest.approx(seen, abs=0.0201 if suffix == ".avi" else 0.001)
    assert bursts(target) == pytest.approx(heard, abs=NEAR_S)
    assert hertz(target) == pytest.approx(1000, abs=15)


@pytest.mark.parametrize(
    ("name", "suffix", "codec"),
    [
        ("a.mp4", ".mp4", "aac"), ("a.mp4", ".mov", "aac"), ("a.mp4", ".mkv", "aac"),
        ("a.mp4", ".webm", "opus"), ("a.mp4", ".avi", "mp3"), ("stream.ts", ".mp4", "aac"),
        ("opus.webm", ".webm", "opus"), ("opus.webm", ".mp4", "opus"), ("mp3.mkv", ".mp4", "mp3"),
        ("pcm.mkv", ".mp4", "aac"), ("pcm.mkv", ".mkv", "pcm_s16le"),
        ("pcm.mkv", ".avi", "pcm_s16le"), ("pcm.mkv", ".mov", "pcm_s16le"),
        ("surround.mov", ".mov", "ac3"), ("surround.mov", ".mp4", "aac"),
    ],
)  # fmt: skip
def test_sound_is_encoded_anew_only_where_it_must_be(
    sources: Path, tmp_path: Path, name: str, suffix: str, codec: str
) -> None:
    target = copied(sources / name, tmp_path / f"target{suffix}")
    assert codecs(target) == [codec]
    if codecs(sources / name) == [codec]:
        # The first one may only be for the decoder to begin with.
        kept = b"".join(data_of(sources / name)[1:])
        is_there = kept in b"".join(data_of(target))
        assert is_there


def data_of(path: Path) -> list[bytes]:
    """The data of the sound, without the headers that streams have."""
    with av.open(str(path)) as container:
        head = 7 if container.format.name == "mpegts" else 0
        return [bytes(packet)[head:] for packet in container.demux(audio=0)]


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".mkv"])
def test_all_tracks_are_kept(tmp_path: Path, suffix: str) -> None:
    source = make(tmp_path / "a.mp4", sound=("aac", "aac"))
    target = copied(source, tmp_path / f"b{suffix}")
    assert len(codecs(target)) == 2
    for number, pitch in enumerate((1000, 2000)):
        assert hertz(target, number) == pytest.approx(pitch, abs=15)
        assert bursts(target, number) == pytest.approx(bursts(source, number), abs=NEAR_S)
    with av.open(str(target)) as container:
        assert [track.language for track in container.streams.audio] in (
            ["eng", "deu"], ["eng", "ger"]
        )  # fmt: skip


@pytest.mark.parametrize("suffix", [".mp4", ".webm", ".mkv", ".mov", ".avi"])
def test_without_sound_there_is_none(tmp_path: Path, suffix: str) -> None:
    target = copied(make(tmp_path / "a.mp4", sound=()), tmp_path / f"b{suffix}")
    assert codecs(target) == []


def test_sound_of_another_file_ends_with_the_last_frame(tmp_path: Path) -> None:
    path = tmp_path / "song.wav"
    with written(path) as container:
        track = container.add_stream("pcm_s16le", RATE)
        track.layout = "mono"
        samples = (tone() * 32767).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(samples, "s16", "mono")
        frame.sample_rate = RATE
        container.mux(track.encode(frame))
    with VideoWriter(tmp_path / "a.mp4", 25, audio_from=path) as writer:
        for _ in range(20):
            writer.write(plain(48, 64))
    assert bursts(tmp_path / "a.mp4") == pytest.approx([0.4], abs=NEAR_S)
    with av.open(str(tmp_path / "a.mp4")) as container:
        # Packets of the song are of 1/12 s.
        assert container.duration == pytest.approx(0.8e6, abs=0.09e6)


def test_sound_that_goes_on_is_kept_where_all_frames_are_read(tmp_path: Path) -> None:
    source = make(tmp_path / "a.mp4", [index / 25 for index in range(15)])
    target = copied(source, tmp_path / "b.mp4")
    assert bursts(target) == pytest.approx(list(FLASHES), abs=NEAR_S)


def test_what_a_song_shows_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "song.m4a"
    with written(path, format="mp4") as container:
        track = container.add_stream("aac", RATE)
        cover = container.add_stream("mjpeg", 25)
        cover.width, cover.height, cover.pix_fmt = 64, 48, "yuvj420p"
        cover.disposition = Disposition.attached_pic
        made = av.VideoFrame.from_ndarray(plain(48, 64), "rgb24").reformat(format="yuvj420p")
        for packet in [*cover.encode(made), *cover.encode(None)]:
            container.mux(packet)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), "fltp", "stereo")
        frame.sample_rate = RATE
        container.mux([*track.encode(frame), *track.encode(None)])
    with pytest.raises(ImageError, match=r"there is no video in it: .*song.m4a"):
        VideoReader(path)


def test_damaged_sound_is_left_out_with_a_warning(
    sources: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = bytearray((sources / "a.mp4").read_bytes())
    with av.open(str(sources / "a.mp4")) as container:
        for number, packet in enumerate(container.demux(audio=0)):
            if 30 <= number < 40 and packet.pos is not None:
                data[packet.pos : packet.pos + packet.size] = b"\xff" * packet.size
    (tmp_path / "a.mp4").write_bytes(data)
    target = copied(tmp_path / "a.mp4", tmp_path / "b.webm")
    assert bursts(target)[0] == pytest.approx(0.4, abs=NEAR_S)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("the sound is damaged, some of it is left out")


def test_sound_that_nothing_can_encode_is_said_to_be_left_out(
    sources: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import dataclasses

    without = dataclasses.replace(formats.FORMATS[".webm"], audio=("none_of_this_name",))
    monkeypatch.setitem(formats.FORMATS, ".webm", without)
    target = copied(sources / "a.mp4", tmp_path / "b.webm")
    assert codecs(target) == []
    with VideoReader(target) as video:
        assert len(list(video)) == 50
    assert "the sound cannot be kept, this pyav has no encoder" in caplog.text


@pytest.mark.parametrize(
    ("suffix", "missing", "codec", "told"),
    [
        (".mp4", H264, "vp9", "no encoder of H.264, videos are written in VP9"),
        (".mp4", (*H264, "libvpx-vp9"), "mpeg4", "MPEG-4, which browsers do not play"),
        (".webm", ("libvpx-vp9",), "vp8", "no encoder of VP9, videos are written in VP8"),
    ],
)  # fmt: skip
def test_other_encoders_are_used_where_the_best_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    suffix: str,
    missing: tuple[str, ...],
    codec: str,
    told: str,
) -> None:
    monkeypatch.setattr("palmkit.kits.video.messages._told", set[str]())
    monkeypatch.setattr("av.codecs_available", av.codecs_available - set(missing))
    for name in ("a", "b"):
        with VideoWriter(tmp_path / f"{name}{suffix}", 25) as writer:
            for _ in range(5):
                writer.write(plain(48, 64))
    with av.open(str(tmp_path / f"a{suffix}")) as container:
        assert container.streams.video[0].codec_context.codec.canonical_name == codec
    with VideoReader(tmp_path / f"a{suffix}") as video:
        read = list(video)
    assert [ms for _, ms in read] == pytest.approx([0, 40, 80, 120, 160], abs=0.1)
    assert np.abs(read[0][0].astype(int) - (40, 90, 160)).max() <= 8
    assert len(caplog.records) == 1 and told in caplog.text


def test_where_no_encoder_is_left_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("av.codecs_available", set[str]())
    with (
        pytest.raises(ImageError, match=r"this PyAV has no encoder for such a video .*: .*a.mp4"),
        VideoWriter(tmp_path / "a.mp4", 25) as writer,
    ):
        writer.write(plain(48, 64))
    assert not list(tmp_path.iterdir())


def test_the_index_stands_in_front(sources: Path, tmp_path: Path) -> None:
    data = copied(sources / "a.mp4", tmp_path / "b.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")


def test_no_place_or_date_is_taken_along(tmp_path: Path) -> None:
    with written(tmp_path / "a.mp4", options={"movflags": "use_metadata_tags"}) as made:
        made.metadata.update(title="at home", location="+52.5+13.4/", comment="secret")
        stream = made.add_stream("libx264", 25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        made.mux(stream.encode(av.VideoFrame.from_ndarray(plain(48, 64), "rgb24")))
        made.mux(stream.encode(None))
    data = copied(tmp_path / "a.mp4", tmp_path / "b.mp4").read_bytes()
    assert not any(word in data for word in (b"at home", b"52.5", b"secret"))


def test_silence_is_silent(sources: Path, tmp_path: Path) -> None:
    target = copied(sources / "gap.mkv", tmp_path / "b.webm")
    assert np.abs(sounds(target)[round(0.62 * RATE) : round(1.08 * RATE)]).max() < 0.01


def test_the_command_keeps_times_and_sound(run: Any, red_model: Path, tmp_path: Path) -> None:
    source = make(tmp_path / "a.mov", UNEVEN_S, sound=("aac", "aac"), rotation=90)
    result = run(
        "face", "--size", 640, "--model", red_model, source, "-o", tmp_path / "b.mp4", "--json"
    )
    assert (result.code, result.err) == (0, "")
    times = [1e3 * at for at in UNEVEN_S]
    assert [line["timestamp_ms"] for line in result.lines] == pytest.approx(times, abs=1e-3)
    with VideoReader(tmp_path / "b.mp4") as video:
        read = list(video)
    assert [timestamp_ms for _, timestamp_ms in read] == pytest.approx(times, abs=1e-3)
    assert read[0][0].shape == (64, 48, 3)
    assert codecs(tmp_path / "b.mp4") == ["aac", "aac"]
    assert bursts(tmp_path / "b.mp4") == pytest.approx(bursts(source), abs=NEAR_S)
