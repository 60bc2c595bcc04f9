"""Frames from video files and cameras."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from palmkit.engine.errors import ImageError
from palmkit.engine.forks import finished
from palmkit.kits.image import Image
from palmkit.kits.video import pyav_files
from palmkit.kits.video.overlap import Ahead

if TYPE_CHECKING:
    from palmkit.kits.video.pyav_reading import Timeline

MAX_CAMERA = 2**31 - 1
# Frames that wait to be taken: more would only hold memory.
AHEAD = 3


class Frames(Protocol):
    """The frames of a file or a camera, by one of the libraries."""

    frames_per_s: float

    @property
    def timeline(self) -> Timeline | None:
        """The clock of a file whose sound can be read."""
        ...

    @property
    def frames(self) -> int | None:
        """About how many frames there are."""
        ...

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield each frame and its time in ms."""
        ...

    def close(self) -> None:
        """Release the file or camera."""
        ...


class VideoReader:
    """The frames of a video file or a camera, in order: a context manager.

    with VideoReader("clip.mp4") as video:
        for frame, timestamp_ms in video: ...

    A file is read by PyAV (extra `video`), which heeds how it was recorded: frames come upright and
    not stretched, in the colours that the file states, HDR brought to sRGB. Without PyAV it is read
    by OpenCV, as cameras are, which heeds quarter turns only. A thread decodes the next frames of a
    file while the caller works.
    """

    def __init__(self, source: str | os.PathLike[str] | int) -> None:
        """Open the source.

        source: a path, or the number of a camera.
        Raises ImageError if it cannot be opened, or a frame of it has more than MAX_PIXELS.
        """
        self._name = str(source)
        if isinstance(source, int):
            # OpenCV crashes at some of the others.
            if isinstance(source, bool) or not 0 <= source <= MAX_CAMERA:
                raise ImageError(
                    f"camera: expected a number from 0 to {MAX_CAMERA}, got {self._name}"
                )
        elif not isinstance(source, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ImageError(
                f"video: expected a path or the number of a camera, got {type(source).__name__}"
            )
        elif not os.path.isfile(source):
            raise ImageError(f"no such file: {self._name}")
        self._source = _opened(source if isinstance(source, int) else os.fspath(source))
        self._frames = iter(self._source)
        self._is_file = not isinstance(source, int)
        self._ahead: Ahead[tuple[Image, float]] | None = None
        self._is_over = False

    @property
    def frames_per_s(self) -> float:
        """The frame rate of the file, on average if it varies; 30 if it is unknown."""
        return self._source.frames_per_s

    @property
    def frames(self) -> int | None:
        """About how many frames the file has; None if it does not say, and for a camera."""
        return self._source.frames

    @property
    def timeline(self) -> Timeline | None:
        """The clock of a file, on which its sound is, too; None for a camera and without PyAV."""
        return self._source.timeline

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield each frame, uint8[h, w, 3] RGB, upright, and its timestamp_ms.

        timestamp_ms is the frame's own time in the file: what a player's clock shows with it. It
        advances unevenly where the frame rate varies, and the first may be late.
        Raises ImageError if there is no frame, or the file ends long before its stated end.
        """
        if self._is_over:
            raise ImageError(f"the video is at its end or closed, open it anew: {self._name}")
        if not self._is_file:
            yield from self._of_camera()
        else:
            if self._ahead is None:
                self._ahead = Ahead(self._frames, AHEAD)
            yield from self._ahead
        self._is_over = True

    def _of_camera(self) -> Iterator[tuple[Image, float]]:
        # The newest is wanted: none is taken before its time.
        advance = finished(self._frames.__next__)
        while True:
            try:
                found = advance()
            except StopIteration:
                return
            yield found

    def close(self) -> None:
        """Release the file or camera."""
        self._is_over = True
        if self._ahead is not None:
            self._ahead.stop()
            if not self._ahead.is_ours:
                return
        self._source.close()

    def __enter__(self) -> VideoReader:
        """Return the reader itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


@finished
def _opened(source: str | int) -> Frames:
    """Return the frames of a source by the library that is there."""
    if isinstance(source, int) or not pyav_files.version():
        from palmkit.kits.video import opencv_files

        return opencv_files.Reading(source)
    from palmkit.kits.video import pyav_reading

    return pyav_reading.Reading(source)
