"""Frames into video files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from palmkit.engine.errors import ImageError, why
from palmkit.engine.forks import finished
from palmkit.engine.ir import Type
from palmkit.engine.replacing import replacing
from palmkit.kits.image import Image
from palmkit.kits.video import pyav_files
from palmkit.kits.video.clock import Clock
from palmkit.kits.video.formats import (
    CODECS,
    FRAMES_PER_S,
    LEAST_FRAMES_PER_S,
    MOST_FRAMES_PER_S,
)
from palmkit.kits.video.overlap import Behind
from palmkit.kits.video.reader import VideoReader

# Frames that wait to be encoded: more would only hold memory.
BEHIND = 3


class File(Protocol):
    """A file that one of the libraries writes; it raises ImageErrors that do not name the file."""

    def prepare(self, frame: Image) -> Any:
        """Return a frame, uint8[h, w, 3] with even sides, for `write`, in memory of its own."""
        ...

    def write(self, frame: Any, time_s: float) -> None:
        """Add a frame; times do not decrease."""
        ...

    def finish(self) -> None:
        """Complete the file."""
        ...

    def close(self) -> None:
        """Release the file, complete or not."""
        ...


class VideoWriter:
    """A video file that appears whole or not at all: a context manager.

    with VideoReader("clip.mp4") as video:
        with VideoWriter("new.mp4", video.frames_per_s, audio_from=video) as new:
            for frame, timestamp_ms in video:
                new.write(frame, timestamp_ms)

    With PyAV (extra `video`) .mp4, .m4v, .mov and .mkv hold H.264, .webm VP9 and .avi Motion JPEG,
    and all the sound of another file; browsers play .mp4, .m4v and .webm. Without it, OpenCV writes
    MPEG-4, VP8 and Motion JPEG at one frame rate and without sound, and a warning on the logger
    `palmkit.kits` says so. A thread encodes while the caller works.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        frames_per_s: float = FRAMES_PER_S,
        *,
        audio_from: str | os.PathLike[str] | VideoReader | None = None,
    ) -> None:
        """Choose the format by the suffix; the size is that of the first frame.

        frames_per_s: the rate of frames that are written without a time; for others, about theirs.
        audio_from: a file whose sound the video gets, all tracks of it: as it is where the format
        takes it, else encoded anew (AAC or Opus). Times of frames are then times of the sound, too.
        It ends with the last frame, but goes on to its own end where a reader has read all frames.
        Raises ImageError if no format is known for the suffix, the rate is no rate, or there is no
        such file.
        """
        self._path = Path(path)
        if self._path.suffix.lower() not in CODECS:
            known = ", ".join(CODECS)
            raise ImageError(f"no video format has this suffix (known: {known}): {self._path}")
        if not LEAST_FRAMES_PER_S <= frames_per_s <= MOST_FRAMES_PER_S:
            least, most = LEAST_FRAMES_PER_S, MOST_FRAMES_PER_S
            raise ImageError(f"frames_per_s: expected {least} to {most}, got {frames_per_s!r}")
        self._frames_per_s = float(frames_per_s)
        self._audio_from = audio_from
        if isinstance(audio_from, str | os.PathLike) and not os.path.isfile(audio_from):
            raise ImageError(f"no such file: {audio_from}")
        has_sound = audio_from is not None
        if isinstance(audio_from, VideoReader):
            has_sound = audio_from.timeline is not None
        self._clock = Clock(self._frames_per_s, is_absolute=has_sound)
        self._file: File | None = None
        self._behind: Behind[tuple[Any, float]] | None = None
        self._shape: tuple[int, ...] = ()
        self._files = ExitStack()

    def write(self, frame: Image, timestamp_ms: float | None = None) -> None:
        """Add a frame, uint8[h, w, 3] RGB or uint8[h, w] gray, all of one size.

        timestamp_ms: its time; None: a period of frames_per_s after the one before. Without
        audio_from, only differences count. A time that repeats or goes back a little is put right
        behind the one before; what jumps back by more than 1 s goes on a period after it.
        An odd side gains a last row or column, a copy of the one before, as H.264 has even ones.
        Raises ImageError for another size or a time that is none, or if the file cannot be written.
        """
        frame = self._checked(frame)
        time_s = self._clock.place(timestamp_ms)
        try:
            if self._behind is None or self._file is None:
                self._file = self._opened(frame)
                self._behind = Behind(_write_to(self._file), BEHIND, held=self._files)
            prepared = finished(self._file.prepare)(frame)
            # No fork waits for this: the thread may wait for the end of a fork.
            self._behind.put((prepared, time_s))
        except ImageError as error:
            raise self._named(error) from error

    def _checked(self, frame: Image) -> Image:
        """Return the frame as uint8[h, w, 3], with even sides."""
        is_frame = frame.ndim == 2 or (frame.ndim == 3 and frame.shape[2] == 3)
        if frame.size == 0 or frame.dtype != np.uint8 or not is_frame:
            raise ImageError(
                f"video frame: expected uint8[h, w, 3] or uint8[h, w], got {Type.of(frame)}"
            )
        if self._shape and frame.shape[:2] != self._shape:
            raise ImageError(f"video frame: expected {self._shape}, got {frame.shape[:2]}")
        self._shape = frame.shape[:2]
        if frame.ndim == 2:
            frame = np.repeat(frame[:, :, None], 3, axis=2)
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), "edge")
        return np.ascontiguousarray(frame)

    @finished
    def _opened(self, frame: Image) -> File:
        try:
            part = self._files.enter_context(replacing(self._path))
            # The system says why a file cannot be made; OpenCV does not.
            part.touch()
        except (OSError, ValueError) as error:
            raise ImageError(f"the video cannot be written, {why(error)}") from error
        if pyav_files.version():
            from palmkit.kits.video import pyav_writing

            return pyav_writing.Writing(part, frame.shape, self._frames_per_s, self._sound())
        from palmkit.kits.video import opencv_files

        return opencv_files.Writing(part, frame.shape, self._frames_per_s)

    def _sound(self) -> Any:
        """Return the clock of the file whose sound is wanted."""
        from palmkit.kits.video import pyav_sound

        source = self._audio_from
        if isinstance(source, VideoReader):
            return source.timeline
        return None if source is None else pyav_sound.timeline_of(os.fspath(source))

    def _named(self, error: ImageError) -> ImageError:
        return ImageError(f"{error}: {self._path}")

    def __enter__(self) -> VideoWriter:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Finish the file, or leave none if something went wrong."""
        if self._behind is not None and not self._behind.is_ours:
            # A forked child leaves the file to its parent.
            return
        problem = error
        try:
            if self._behind is not None and self._file is not None:
                self._end(self._behind, self._file, is_wanted=error is None)
        except BaseException as failed:
            problem = self._named(failed) if isinstance(failed, ImageError) else failed
        try:
            self._files.__exit__(type(problem) if problem else None, problem, None)
        except OSError as failed:
            problem = self._named(ImageError(f"the video cannot be written, {why(failed)}"))
        if problem is not None and problem is not error:
            raise problem

    def _end(self, behind: Behind[tuple[Any, float]], file: File, is_wanted: bool) -> None:
        try:
            if is_wanted:
                behind.finish()
                finished(file.finish)()
        finally:
            behind.stop()
            finished(file.close)()


def _write_to(file: File) -> Any:
    """Return what writes frames, without a hold on the writer: it may be dropped."""

    def write(item: tuple[Any, float]) -> None:
        file.write(*item)

    return write
