"""Frames of video files, by PyAV."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from palmkit.engine.errors import ImageError, why
from palmkit.kits.image import MAX_PIXELS, Image
from palmkit.kits.video.formats import COUNT_TRUST, FRAMES_PER_S, MOST_FRAMES_PER_S
from palmkit.kits.video.messages import say
from palmkit.kits.video.pyav_files import (
    US,
    Packets,
    fraction,
    open_input,
    start_of,
    threads,
    video_of,
)
from palmkit.kits.video.upright import Turn, turn_of

if TYPE_CHECKING:
    from av import VideoFrame, VideoStream

    from palmkit.kits.video.colours import ToRgb

# Pixels that are further from square are a damaged file's.
MOST_STRETCHED = 4
# Formats that state how long they are, or how many frames they have; of others it is a guess.
STATE_LENGTH = {"mov", "matroska", "asf"}
STATE_COUNT = {"avi"}


@dataclass
class Timeline:
    """The clock of a file that is read, on which its sound is, too.

    path: of the file. start: the time that is 0 for players and for `timestamp_ms`, on the clock of
    its packets, in seconds. tick: of the frames' times, in seconds; None without a video. end_s:
    when its last frame ends; None until that is read.
    """

    path: str
    start: Fraction
    tick: Fraction | None
    end_s: float | None = None


class Reading:
    """The frames of a file, which can be iterated once."""

    def __init__(self, path: str) -> None:
        """Open the file.

        Raises ImageError if it cannot be read, or there is no video in it.
        """
        self._path = path
        self._container = open_input(path)
        try:
            # Any, as PyAV's types leave open what packets are.
            self._stream: Any = self._found()
        except ImageError:
            self._container.close()
            raise
        self._stream.thread_type = "AUTO"
        self._stream.thread_count = threads()
        self._tick = fraction(self._stream.time_base) or Fraction(1, US)
        self.frames_per_s = self._rate()
        self.timeline = Timeline(path, start_of(self._container), self._tick)
        self._formats = set(self._container.format.name.split(","))
        self._reached = Fraction(0)
        self._broken = 0
        self._failure = ""

    def _found(self) -> VideoStream:
        stream = video_of(self._container)
        if stream is None:
            raise ImageError(f"there is no video in it: {self._path}")
        # PyAV says that it is there in any case.
        if getattr(stream, "codec_context", None) is None:
            raise ImageError(f"the video is of a format that is not known: {self._path}")
        _check_size(stream.width, stream.height, self._path)
        return stream

    def _rate(self) -> float:
        rate = fraction(self._stream.average_rate) or fraction(self._stream.guessed_rate)
        is_rate = rate is not None and 1 <= rate <= MOST_FRAMES_PER_S
        return float(rate) if rate is not None and is_rate else FRAMES_PER_S

    @property
    def frames(self) -> int | None:
        """About how many frames there are; None if the file does not say."""
        stream = self._stream
        length = Fraction(self._container.duration or 0, US)
        if STATE_COUNT & self._formats:
            length = self._stated_length()
        elif stream.duration is not None:
            length = stream.duration * self._tick
        # Not the count in the file: it includes what was cut off at the front.
        count = round(length * Fraction(self.frames_per_s)) if length > 0 else stream.frames
        return count if 0 < count < 1 << 40 else None

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield each frame, upright, and its time in ms; raise ImageError as VideoReader does."""
        import av

        from palmkit.kits.video.colours import ToRgb

        to_rgb: ToRgb | None = None
        turn = Turn()
        end_s, count = 0.0, 0
        for frame in self._decoded():
            width = self._shown_width(frame)
            _check_size(width, frame.height, self._path)
            if to_rgb is None:
                to_rgb, turn = ToRgb(width, frame.height), _turn(frame)
            # A float of ms tells all ticks of a file apart.
            shown_s = None if frame.pts is None else frame.pts * self._tick - self.timeline.start
            time_s = end_s if shown_s is None else float(shown_s)
            # With frames that are stored out of order, what they last is not told.
            lasts = 0 if self._stream.codec_context.has_b_frames else frame.duration
            end_s = time_s + (float(lasts * self._tick) or 1 / self.frames_per_s)
            try:
                image = to_rgb(frame)
            except av.FFmpegError as error:
                self._fail(error)
                continue
            self._broken += frame.is_corrupt
            count += 1
            yield turn.apply(image), time_s * 1e3
        self._judge(count)
        self.timeline.end_s = end_s

    def _decoded(self) -> Iterator[VideoFrame]:
        packets = Packets(self._container)
        for packet in packets:
            if packet.pts is not None and (tick := fraction(packet.time_base)) is not None:
                end = (packet.pts + (packet.duration or 0)) * tick - self.timeline.start
                self._reached = max(self._reached, end)
            if packet.stream.index == self._stream.index:
                yield from self._decode(packet)
        self._failure = packets.failure or self._failure
        # What the decoder still holds.
        yield from self._decode(None)

    def _decode(self, packet: Any) -> list[VideoFrame]:
        import av

        try:
            found: list[VideoFrame] = self._stream.decode(packet)
        except av.FFmpegError as error:
            self._fail(error)
            return []
        return found

    def _fail(self, error: Exception) -> None:
        """Note that a frame is missing, and why the first one is."""
        self._broken += 1
        self._failure = self._failure or why(error)

    def _shown_width(self, frame: VideoFrame) -> int:
        """Return the width with which a frame is shown: pixels need not be square."""
        ratio = fraction(self._stream.sample_aspect_ratio)
        if ratio is None or not 1 / MOST_STRETCHED <= ratio <= MOST_STRETCHED:
            return frame.width
        return max(round(frame.width * ratio), 1)

    def _judge(self, count: int) -> None:
        """Raise ImageError if there was no frame, or the file ends long before its stated end."""
        if count == 0:
            cause = f", {self._failure}" if self._failure else ""
            raise ImageError(f"no frame can be read{cause}: {self._path}")
        reached, length = float(self._reached), float(self._stated_length())
        if reached < length * COUNT_TRUST - 2 / self.frames_per_s:
            raise ImageError(
                f"the video is damaged, it ends at {reached:.1f} s of {length:.1f} s: {self._path}"
            )
        if self._broken:
            say(f"the video is damaged, frames are wrong or missing ({self._broken}): {self._path}")

    def _stated_length(self) -> Fraction:
        """Return how many seconds of video or sound there are by the file; 0 if it does not say."""
        if STATE_COUNT & self._formats:
            count: int = self._stream.frames
            return count * self._tick
        if STATE_LENGTH & self._formats:
            return Fraction(self._container.duration or 0, US)
        return Fraction(0)

    def close(self) -> None:
        """Release the file."""
        self._container.close()


def _turn(frame: VideoFrame) -> Turn:
    """Return what brings the frames of a video upright, of its first one."""
    data: Any = frame.side_data
    try:
        return turn_of(bytes(data["DISPLAYMATRIX"]))
    except (KeyError, ValueError):
        return Turn()


def _check_size(width: int, height: int, path: str) -> None:
    if width * height > MAX_PIXELS:
        raise ImageError(f"{width}x{height} is more than {MAX_PIXELS} pixels: {path}")
