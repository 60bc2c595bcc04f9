"""Video files, with the sound of others, by PyAV."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.engine.errors import ImageError, why
from palmkit.kits.image import Image
from palmkit.kits.video.clock import Grid
from palmkit.kits.video.colours import FromRgb
from palmkit.kits.video.formats import ENCODERS, FORMATS, Format
from palmkit.kits.video.messages import say, say_once
from palmkit.kits.video.pyav_files import has_encoder, open_output, threads
from palmkit.kits.video.pyav_sound import Sound

if TYPE_CHECKING:
    from av import VideoFrame

    from palmkit.kits.video.pyav_reading import Timeline

# Times are kept to this, and exactly where the file that frames are from has ticks of its own.
FINEST = Fraction(1, 10_000)
# No frame lasts longer in an MP4; with the finest usual ticks that is six hours.
MOST_TICKS = 2**31 - 1


class Writing:
    """A file of frames that last until the next one, and of the sound of another file."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], frames_per_s: float, sound: Timeline | None
    ) -> None:
        """Open the file for frames of a shape, with even sides.

        sound: of the file whose sound it gets.
        Raises ImageError if it cannot be written.
        """
        import av

        self._path = path
        self._format = FORMATS[path.suffix.lower()]
        self._height, self._width = shape[:2]
        self._rate = Fraction(frames_per_s).limit_denominator(1001)
        self._codec = encoder(self._format)
        self._tick = 1 / self._rate
        if not self._format.has_one_rate:
            tick = None if sound is None else sound.tick
            self._tick = fine_tick(tick or self._tick, ENCODERS[self._codec].ticks_a_s)
        self._grid = Grid(frames_per_s) if self._format.has_one_rate else None
        self._heard = sound
        self._colours = FromRgb(ENCODERS[self._codec].is_jpeg)
        self._held: VideoFrame | None = None
        self._lasts: dict[int, int] = {}
        # By how many ticks gaps were too long.
        self._late = 0
        self._is_finished = False
        try:
            self._container, self._stream, self._sound = self._opened()
        except (av.FFmpegError, OSError, ValueError) as error:
            size = f"{self._width}x{self._height}"
            raise ImageError(f"a video of {size} cannot be written, {why(error)}") from error

    def _opened(self) -> tuple[Any, Any, Sound | None]:
        """Open the file with the sound as it is; else, encoded anew; else, without it."""
        import av

        heard = self._heard
        for is_copied in (True, False) if heard is not None else ():
            assert heard is not None
            try:
                return self._begun(heard, is_copied)
            except (av.FFmpegError, OSError, ValueError) as error:
                if not is_copied:
                    say(f"the sound cannot be kept, {why(error)}: {heard.path}")
        return self._begun(None, False)

    def _begun(self, heard: Timeline | None, is_copied: bool) -> tuple[Any, Any, Sound | None]:
        import av

        container = open_output(str(self._path), self._format.muxer, self._format.options)
        sound = None
        try:
            stream = self._added(container)
            if heard is not None:
                sound = Sound(heard, container, self._format, is_copied)
            container.start_encoding()
        except BaseException:
            if sound is not None:
                sound.close()
            with suppress(av.FFmpegError, OSError):
                container.close()
            raise
        return container, stream, sound

    def _added(self, container: Any) -> Any:
        """Return a new stream of the file with its encoder."""
        used = ENCODERS[self._codec]
        stream = container.add_stream(self._codec, self._rate, dict(used.options))
        context = stream.codec_context
        context.width, context.height = self._width, self._height
        context.pix_fmt = self._colours.pixels
        context.time_base = self._tick
        context.thread_count = threads()
        for name, value in self._colours.tags.items():
            setattr(context, name, value)
        if used.bits_a_pixel:
            pixels_per_s = self._width * self._height * float(self._rate)
            context.bit_rate = max(round(used.bits_a_pixel * pixels_per_s), 100_000)
        return stream

    def prepare(self, frame: Image) -> VideoFrame:
        """Return a frame, uint8[h, w, 3], in memory of its own."""
        import av

        return av.VideoFrame.from_ndarray(frame, "rgb24")

    def write(self, frame: VideoFrame, time_s: float) -> None:
        """Add a frame that `prepare` returned; the one before lasts until then.

        Raises ImageError if the file cannot be written.
        """
        import av

        held = self._held
        at = self._place(time_s)
        try:
            made = self._colours(frame)
            made.time_base = self._tick
            made.pts = at
            if held is not None and held.pts is not None:
                self._encode(held, at - held.pts)
            self._held = made
        except (av.FFmpegError, OSError) as error:
            raise ImageError(f"the video cannot be written, {why(error)}") from error

    def _place(self, time_s: float) -> int:
        """Return the tick of the next frame, behind that of the frame before."""
        if self._grid is not None:
            return self._grid.place(time_s)
        wanted = round(time_s / self._tick) - self._late
        if self._held is None or self._held.pts is None:
            return wanted
        most = self._held.pts + MOST_TICKS
        if wanted > most:
            self._late += wanted - most
            wanted = most
        return max(wanted, self._held.pts + 1)

    def _encode(self, frame: VideoFrame, lasts: int) -> None:
        """Encode a frame.

        lasts: how long, in ticks.
        """
        frame.duration = lasts
        assert frame.pts is not None
        self._lasts[frame.pts] = lasts
        self._mux(self._stream.encode(frame))
        if self._sound is not None:
            self._sound.until(float(frame.pts * self._tick))

    def _mux(self, packets: list[Any]) -> None:
        for packet in packets:
            if packet.pts is not None:
                packet.duration = self._lasts.pop(packet.pts, packet.duration)
            self._container.mux(packet)

    def finish(self) -> None:
        """Complete the file, with the sound up to the last frame's end or its own.

        Raises ImageError if it cannot be written.
        """
        import av

        try:
            if self._held is not None and self._held.pts is not None:
                end = self._end_of(self._held.pts)
                self._encode(self._held, end - self._held.pts)
                self._mux(self._stream.encode(None))
                if self._sound is not None and self._heard is not None:
                    is_read = self._heard.end_s is not None
                    self._sound.finish(float(end * self._tick), is_whole=is_read)
            self._container.close()
            self._is_finished = True
        except (av.FFmpegError, OSError) as error:
            raise ImageError(f"the video cannot be written, {why(error)}") from error

    def _end_of(self, last: int) -> int:
        """Return the tick at which the last frame ends: as in the file that it is from."""
        end_s = None if self._heard is None else self._heard.end_s
        period = max(round(1 / (self._rate * self._tick)), 1)
        found = last + period if end_s is None else round(end_s / self._tick)
        return found if found > last else last + period

    def close(self) -> None:
        """Release the file, which is whole only if it was finished."""
        import av

        if self._sound is not None:
            self._sound.close()
        if not self._is_finished:
            # FFmpeg writes an index in any case; without a file it does not move it to the front.
            with suppress(OSError):
                self._path.unlink()
        with suppress(av.FFmpegError, OSError):
            self._container.close()


def fine_tick(tick: Fraction, most: int) -> Fraction:
    """Return a part of a tick that is no longer than FINEST, so that times of others fit, too.

    most: the largest denominator; with more, it is FINEST.
    """
    found = tick / max(ceil(tick / FINEST), 1)
    return found if found.denominator <= most else FINEST


def encoder(form: Format) -> str:
    """Return the best encoder of a format that this PyAV has; say once if browsers are left out.

    Raises ImageError if it has none.
    """
    found = next((name for name in form.video if has_encoder(name)), None)
    if found is None:
        wanted = ", ".join(form.video)
        raise ImageError(f"this PyAV has no encoder for such a video ({wanted})")
    best = ENCODERS[form.video[0]]
    if ENCODERS[found].title != best.title:
        but = "" if ENCODERS[found].plays else ", which browsers do not play"
        say_once(
            f"this PyAV has no encoder of {best.title}, videos are written in "
            f"{ENCODERS[found].title}{but}"
        )
    return found
