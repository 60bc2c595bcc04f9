"""Files by way of PyAV, which is FFmpeg, where it is installed (extra `video`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any

from palmkit.engine.errors import ImageError, why
from palmkit.engine.forks import importing
from palmkit.engine.machine import usable_cores

if TYPE_CHECKING:
    from av import VideoStream
    from av.container import InputContainer

OLDEST = 16
# How many threads take part in decoding or encoding: each holds frames.
MOST_THREADS = 8
US = 1_000_000
_MP4_MARK = b"ftyp"


def version() -> int:
    """Return the major version of PyAV; 0 if it is missing or too old."""
    with importing:
        try:
            found = import_module("av")
        except ImportError:
            return 0
    major = int(str(found.__version__).partition(".")[0])
    return major if major >= OLDEST else 0


def threads() -> int:
    """Return how many threads are to decode or encode."""
    return min(usable_cores(), MOST_THREADS)


def scaling() -> dict[str, int]:
    """Return the options of every conversion of pixels: threads of its own would be made anew."""
    return {"threads": 1} if version() >= 17 else {}


def open_input(name: str) -> InputContainer:
    """Open a video or sound file.

    Raises ImageError if it is neither, or cannot be read.
    """
    import av

    # Tags may be in any encoding. Later versions take them as bytes.
    given: Any = {"metadata_errors": "replace"} if version() < 19 else {}
    # A name such as concat:a|b is a file's name, and what a file refers to is no address.
    options = {"protocol_whitelist": "file"}
    try:
        container: InputContainer = av.open(f"file:{name}", "r", options=options, **given)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise ImageError(f"{_unreadable(name, error)}: {name}") from error
    return container


def _unreadable(name: str, error: Exception) -> str:
    import av

    if not isinstance(error, (av.InvalidDataError, av.EOFError)):
        return f"video cannot be opened, {why(error)}"
    try:
        with open(name, "rb") as file:
            head = file.read(8)
    except OSError:
        head = b""
    if head[4:] == _MP4_MARK:
        return "the video is damaged, or its recording was not finished: it has no index"
    return "not a video"


class Packets:
    """The packets of a file, in its order: an iterator.

    failure: what ended it before the end of the file; "" if nothing did.
    """

    def __init__(self, container: InputContainer, *streams: Any) -> None:
        """Begin where the file is, with the packets of these streams; of all, if none is given."""
        self._packets: Iterator[Any] = container.demux(*streams)
        self.failure = ""

    def __iter__(self) -> Iterator[Any]:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return the next packet: it is PyAV's, whose types leave open what it is."""
        import av

        try:
            # PyAV's last ones are empty.
            return next(packet for packet in self._packets if packet.size)
        except (av.FFmpegError, OSError) as error:
            self.failure = why(error)
        except IndexError:
            # At the end PyAV stumbles over streams that the file did not begin with.
            pass
        raise StopIteration


def open_output(name: str, muxer: str, options: Mapping[str, str]) -> Any:
    """Open a file to be written, a container of PyAV; FFmpeg's errors come from it.

    Any, as PyAV's types leave open what packets are.
    """
    import av

    return av.open(f"file:{name}", "w", format=muxer, options=dict(options))


def video_of(container: InputContainer) -> VideoStream | None:
    """Return the main video of a file, which is no cover of a song."""
    from av import VideoStream
    from av.stream import Disposition

    found = container.streams.best("video")
    if not isinstance(found, VideoStream) or found.disposition & Disposition.attached_pic:
        return None
    return found


def fraction(ratio: Any) -> Fraction | None:
    """Return a ratio of FFmpeg's; None if it is unknown."""
    return Fraction(ratio.numerator, ratio.denominator) if ratio else None


def start_of(container: InputContainer) -> Fraction:
    """Return when a file begins, in seconds on the clock of its packets: a player shows that as 0.

    What begins before 0 is what decoders need to know before they begin.
    """
    stated = max(Fraction(container.start_time or 0, US), Fraction(0))
    # The same without its rounding to microseconds.
    for stream in container.streams:
        tick = fraction(stream.time_base)
        if stream.start_time is not None and tick is not None:
            exact = stream.start_time * tick
            if abs(exact - stated) <= Fraction(1, US):
                return exact
    return stated


def has_encoder(name: str) -> bool:
    """Return whether this PyAV can encode with it."""
    import av
    from av.codec.codec import UnknownCodecError

    if name not in av.codecs_available:
        return False
    try:
        av.Codec(name, "w")
    except UnknownCodecError:
        return False
    return True
