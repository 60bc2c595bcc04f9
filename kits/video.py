"""Frames from video files and cameras, and frames into video files, with OpenCV."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, cast

import numpy as np

from palmkit.engine.errors import ImageError
from palmkit.engine.forks import finished
from palmkit.engine.ir import Type
from palmkit.engine.replacing import replacing
from palmkit.kits.image import Image

if TYPE_CHECKING:
    import cv2

# OpenCV and its FFmpeg would write of damaged files to standard error by themselves. They read
# these when they are loaded; what the user has set stays.
os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

CODECS = {".mp4": "mp4v", ".m4v": "mp4v", ".mov": "mp4v", ".avi": "MJPG", ".mkv": "mp4v"}
SUFFIXES = frozenset((*CODECS, ".webm", ".mpg", ".mpeg", ".wmv", ".3gp", ".ts"))
FRAMES_PER_S = 30.0
MAX_CAMERA = 2**31 - 1
# The count of frames in a file is an estimate: a few less are not a damaged file.
COUNT_TRUST = 0.95


class VideoReader:
    """The frames of a video file or a camera, in order: a context manager.

    with VideoReader("clip.mp4") as video:
        for frame, timestamp_ms in video: ...
    """

    def __init__(self, source: str | os.PathLike[str] | int) -> None:
        """Open the source.

        source: a path, or the number of a camera.
        Raises ImageError if it cannot be opened.
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
        import cv2

        self._cv2 = cv2
        self._files = ExitStack()
        what = source if isinstance(source, int) else self._files.enter_context(_named(source))
        self._capture: cv2.VideoCapture = cv2.VideoCapture(what)
        if not self._capture.isOpened():
            self._files.close()
            kind = "camera cannot be opened" if isinstance(source, int) else "not a video"
            raise ImageError(f"{kind}: {self._name}")
        self._is_file = not isinstance(source, int)

    @property
    def frames_per_s(self) -> float:
        """The frame rate of the file, else 30."""
        rate = self._capture.get(self._cv2.CAP_PROP_FPS)
        return rate if np.isfinite(rate) and 1 <= rate <= 1000 else FRAMES_PER_S

    @property
    def frames(self) -> int | None:
        """The number of frames that the file states; None if it does not, and for a camera."""
        count = int(self._capture.get(self._cv2.CAP_PROP_FRAME_COUNT))
        return count if self._is_file and 0 < count < 1 << 40 else None

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield each frame, uint8[h, w, 3] RGB, upright, and its timestamp_ms.

        Raises ImageError if there is none, or the file ends long before its stated end.
        """
        count = 0
        while True:
            found = self._next()
            if found is None:
                break
            count += 1
            yield found
        if count == 0:
            raise ImageError(f"no frame can be read: {self._name}")
        if self.frames is not None and count < self.frames * COUNT_TRUST - 2:
            raise ImageError(
                f"the video is damaged, read {count} of {self.frames} frames: {self._name}"
            )

    @finished
    def _next(self) -> tuple[Image, float] | None:
        ok, frame = self._capture.read()
        if not ok:
            return None
        timestamp_ms = self._capture.get(self._cv2.CAP_PROP_POS_MSEC)
        return cast(Image, self._cv2.cvtColor(frame, self._cv2.COLOR_BGR2RGB)), timestamp_ms

    def close(self) -> None:
        """Release the file or camera."""
        self._capture.release()
        self._files.close()

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


class VideoWriter:
    """A video file that appears whole or not at all: a context manager."""

    def __init__(self, path: str | os.PathLike[str], frames_per_s: float) -> None:
        """Choose the codec by the suffix; the size is that of the first frame.

        Raises ImageError if no codec is known for the suffix.
        """
        self._path = Path(path)
        self._frames_per_s = frames_per_s
        if self._path.suffix.lower() not in CODECS:
            known = ", ".join(CODECS)
            raise ImageError(f"no video format has this suffix (known: {known}): {self._path}")
        self._writer: cv2.VideoWriter | None = None
        self._shape: tuple[int, ...] = ()
        self._part = self._path
        self._count = 0
        self._files = ExitStack()

    @finished
    def write(self, frame: Image) -> None:
        """Add a frame, uint8[h, w, 3] RGB or uint8[h, w] gray, all of one size.

        Odd sides lose their last pixels.
        Raises ImageError for another size, or if the file cannot be written.
        """
        import cv2

        if frame.size == 0 or frame.dtype != np.uint8:
            raise ImageError(
                f"video frame: expected uint8[h, w, 3] or uint8[h, w], got {Type.of(frame)}"
            )
        if frame.ndim == 2:
            frame = cast(Image, cv2.cvtColor(frame, cv2.COLOR_GRAY2RGB))
        if frame.ndim != 3 or frame.shape[2] != 3:
            raise ImageError(
                f"video frame: expected uint8[h, w, 3] or uint8[h, w], got {Type.of(frame)}"
            )

        if self._writer is None:
            self._part = self._open_part()
            codec = cv2.VideoWriter.fourcc(*CODECS[self._path.suffix.lower()])
            size = (frame.shape[1], frame.shape[0])
            name = self._files.enter_context(_named(self._part))
            self._writer = cv2.VideoWriter(name, codec, self._frames_per_s, size)
            self._shape = frame.shape
            if not self._writer.isOpened():
                raise ImageError(f"a video of {size[0]}x{size[1]} cannot be written: {self._path}")
        if frame.shape != self._shape:
            raise ImageError(f"video frame: expected {self._shape}, got {frame.shape}")
        self._writer.write(cv2.cvtColor(frame, cv2.COLOR_RGB2BGR))
        self._count += 1

    def _open_part(self) -> Path:
        try:
            return self._files.enter_context(replacing(self._path))
        except (OSError, ValueError) as error:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            raise ImageError(f"video cannot be written, {reason}: {self._path}") from error

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
        problem = error
        if self._writer is not None:
            self._writer.release()
            if error is None and not self._is_whole():
                problem = ImageError(
                    f"video cannot be written whole, is the disk full: {self._path}"
                )
        try:
            self._files.__exit__(type(problem) if problem else None, problem, trace)
        except OSError as failed:
            reason = (failed.strerror or str(failed)).lower()
            raise ImageError(f"video cannot be written, {reason}: {self._path}") from failed
        if problem is not None and problem is not error:
            raise problem

    def _is_whole(self) -> bool:
        """Read back how many frames there are, as OpenCV reports no full disk."""
        try:
            with VideoReader(self._part) as written:
                return (written.frames or 0) >= self._count * COUNT_TRUST - 2
        except ImageError:
            return False


@contextmanager
def _named(path: str | os.PathLike[str]) -> Generator[str]:
    """Yield a name of the file that OpenCV takes: one that is not UTF-8 ends the process."""
    name = os.fspath(path)
    try:
        name.encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory() as folder:
            link = Path(folder, "video").with_suffix(Path(path).suffix)
            link.symlink_to(os.path.abspath(name))
            yield str(link)
        return
    yield name
