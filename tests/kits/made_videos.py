"""Little videos to try reading and writing on: coloured frames and bursts of a tone.

At each of the times in FLASHES a white frame and a burst of the tone begin, so that it can be told
whether sound and pictures are together.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from palmkit.kits.image import Image

RATE = 48_000
FLASHES = (0.4, 1.2)
BURST_S = 0.1
SECONDS = 2.0


def plain(height: int, width: int, colour: Sequence[int] = (40, 90, 160)) -> Image:
    """A picture of one colour."""
    return np.full((height, width, 3), colour, np.uint8)


def frame_at(time_s: float, height: int = 48, width: int = 64) -> Image:
    """Frame of a clip: white while a burst sounds."""
    is_white = any(0 <= round(time_s - flash, 6) < BURST_S for flash in FLASHES)
    return plain(height, width, (235, 235, 235) if is_white else (20, 20, 20))


def tone(hertz: float = 1000.0, seconds: float = SECONDS) -> NDArray[np.float32]:
    """Samples of a clip: bursts of a tone."""
    at_s = np.arange(round(seconds * RATE)) / RATE
    sounds = np.zeros_like(at_s)
    for flash in FLASHES:
        sounds[(at_s >= flash) & (at_s < flash + BURST_S)] = 0.5
    return (sounds * np.sin(2 * np.pi * hertz * at_s)).astype(np.float32)


def written(path: Path, **given: Any) -> Any:
    """Open a file to be written: PyAV's container, whose types leave open what packets are."""
    return av.open(str(path), "w", **given)


def make(
    path: Path,
    times_s: Sequence[float] | None = None,
    *,
    images: Sequence[Image | av.VideoFrame] | None = None,
    video: str = "libx264",
    sound: Sequence[str] = ("aac",),
    muxer: str | None = None,
    shift_s: float = 0.0,
    pixels: str = "yuv420p",
    tags: dict[str, int] | None = None,
    options: dict[str, str] | None = None,
    rotation: int | None = None,
    flips: dict[str, bool] | None = None,
    silence: Sequence[tuple[float, float]] = (),
    last_s: float = 0.04,
) -> Path:
    """Make a file.

    times_s: of the frames; None: 25 a second. images: the frames; None: `frame_at` their times.
    sound: an encoder for each track; tones are an octave apart. shift_s: added to all times; what
    is before 0 then is there, but not to be shown (an edit list). rotation and flips: of the
    display matrix. silence: what the first track leaves out, from when to when. last_s: how long
    the last frame lasts.
    """
    times = [index / 25 for index in range(round(SECONDS * 25))] if times_s is None else times_s
    drawn = [frame_at(time_s) for time_s in times] if images is None else images
    # In an AVI all frames last equally long.
    tick = Fraction(1, 25 if path.suffix == ".avi" else 90_000)
    with written(path, format=muxer) as container:
        first: Any = drawn[0]
        is_made = isinstance(first, av.VideoFrame)
        height, width = (first.height, first.width) if is_made else first.shape[:2]
        stream = container.add_stream(video, 25, options or {})
        stream.width, stream.height, stream.pix_fmt = width, height, pixels
        stream.codec_context.time_base = tick
        for name, value in (tags or {}).items():
            setattr(stream.codec_context, name, value)
        tracks: list[Any] = []
        for number, encoder in enumerate(sound):
            track = container.add_stream(encoder, RATE)
            track.layout = "stereo"
            track.metadata["language"] = ("eng", "deu")[number % 2]
            tracks.append(track)
        if rotation is not None or flips:
            stream.set_display_rotation(rotation or 0, **(flips or {}))
        packets: list[Any] = []
        for time_s, image in zip(times, drawn, strict=True):
            frame = image if isinstance(image, av.VideoFrame) else _frame(image, pixels, tags)
            frame.pts, frame.time_base = round(time_s / tick), tick
            packets += stream.encode(frame)
        packets += stream.encode(None)
        ticks = [round(time_s / tick) for time_s in (*times, times[-1] + last_s)]
        lasts = {at: after - at for at, after in zip(ticks, ticks[1:], strict=False)}
        for packet in packets:
            packet.duration = lasts[packet.pts]
        for number, track in enumerate(tracks):
            packets += _sounding(track, tone(1000.0 * 2**number), silence if number == 0 else ())
        packets.sort(key=lambda packet: packet.dts * packet.time_base)
        for packet in packets:
            by = round(Fraction(shift_s).limit_denominator(1000) / packet.time_base)
            packet.pts, packet.dts = packet.pts + by, packet.dts + by
            container.mux(packet)
    return path


def _frame(image: Image, pixels: str, tags: dict[str, int] | None) -> Any:
    given = tags or {}
    matrix = {1: "ITU709", 5: "ITU601", 6: "ITU601", 9: "BT2020"}[given.get("colorspace", 5)]
    made = av.VideoFrame.from_ndarray(image, "rgb24").reformat(
        format=pixels,
        dst_colorspace=matrix,
        dst_color_range=given.get("color_range", 1),
    )
    made.color_trc = given.get("color_trc", 2)
    made.color_primaries = given.get("color_primaries", 2)
    return made


def _sounding(track: Any, samples: NDArray[np.float32], silence: Any) -> list[Any]:
    packets: list[Any] = []
    size = 960
    for start in range(0, len(samples) - size + 1, size):
        if any(begin <= start / RATE < end for begin, end in silence):
            continue
        part = samples[start : start + size]
        frame = av.AudioFrame.from_ndarray(np.stack([part, part]), "fltp", "stereo")
        frame.sample_rate, frame.pts, frame.time_base = RATE, start, Fraction(1, RATE)
        packets += track.encode(frame)
    return [*packets, *track.encode(None)]


def sounds(path: Path, number: int = 0) -> NDArray[np.float32]:
    """Return what a player lets hear of a track, from 0 on: float32[n] at RATE, silent in gaps.

    It is kept for who asks again.
    """
    stat = path.stat()
    return _sounds(path, number, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _sounds(path: Path, number: int, mtime_ns: int, size: int) -> NDArray[np.float32]:
    with av.open(str(path)) as container:
        start_s = max((container.start_time or 0) / 1e6, 0)
        heard = np.zeros(round((container.duration or 0) * RATE / 1e6) + RATE, np.float32)
        resampler = av.AudioResampler("flt", "mono", RATE)
        for frame in container.decode(container.streams.audio[number]):
            assert frame.pts is not None and frame.time_base is not None
            at = round((float(frame.pts * frame.time_base) - start_s) * RATE)
            # Of its own rate it gives each frame as a whole, and keeps nothing for the next.
            assert frame.sample_rate == RATE
            frame.pts = None
            made = [each.to_ndarray()[0] for each in resampler.resample(frame)]
            part = np.concatenate(made)[max(-at, 0) :]
            heard[max(at, 0) : max(at, 0) + len(part)] = part
    return heard


def bursts(path: Path, number: int = 0) -> list[float]:
    """Return when bursts begin in a track, in seconds, for a player."""
    samples = sounds(path, number)
    level = np.sqrt(np.convolve(samples**2, np.ones(240) / 240, "same"))
    loud = np.flatnonzero((level[1:] > 0.15) & (level[:-1] <= 0.15))
    found: list[float] = []
    for at in loud / RATE:
        if not found or at - found[-1] > BURST_S:
            found.append(float(at))
    return found


def hertz(path: Path, number: int = 0) -> float:
    """Return the pitch of a track's first burst, to about 10 Hz."""
    begin = round((bursts(path, number)[0] + 0.01) * RATE)
    samples = sounds(path, number)[begin : begin + round(0.08 * RATE)]
    return float(np.abs(np.fft.rfft(samples, RATE)).argmax())
