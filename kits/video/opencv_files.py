"""Frames of cameras, and of video files where PyAV is missing, by OpenCV."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import numpy as np

from palmkit.engine.errors import ImageError
from palmkit.kits.image import Image
from palmkit.kits.video.clock import Grid
from palmkit.kits.video.formats import CODECS, COUNT_TRUST, FRAMES_PER_S, MOST_FRAMES_PER_S
from palmkit.kits.video.messages import note_once, say_once

# OpenCV and its FFmpeg would write of damaged files to standard error by themselves. They read
# these when they are loaded; what the user has set stays.
os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

_ADVICE = "pip install 'palmkit[video]' for PyAV, which can"
READING = (
    "videos are read by OpenCV, which does not heed colour tags, HDR and mirrored recordings; "
    f"{_ADVICE}"
)
WRITING = (
    "videos are written by OpenCV, which keeps no sound and only one frame rate, and writes none "
    f"that browsers play but .webm; {_ADVICE}"
)


class Reading:
    """The frames of a file or a camera, which can be iterated once."""

    timeline = None

    def __init__(self, source: str | int) -> None:
        """Open the source: a path, or the number of a camera.

        Raises ImageError if it cannot be opened.
        """
        import cv2

        self._cv2 = cv2
        self._name = str(source)
        self._is_file = not isinstance(source, int)
        self._files = ExitStack()
        if isinstance(source, int):
            self._capture = cv2.VideoCapture(source)
        else:
            note_once(READING)
            self._capture = cv2.VideoCapture(self._files.enter_context(_named(source)))
        if not self._capture.isOpened():
            self._files.close()
            kind = "not a video" if self._is_file else "camera cannot be opened"
            raise ImageError(f"{kind}: {self._name}")
        rate = self._capture.get(cv2.CAP_PROP_FPS)
        is_rate = np.isfinite(rate) and 1 <= rate <= MOST_FRAMES_PER_S
        self.frames_per_s = float(rate) if is_rate else FRAMES_PER_S

    @property
    def frames(self) -> int | None:
        """The number of frames that the file states; None if it does not, and for a camera."""
        count = int(self._capture.get(self._cv2.CAP_PROP_FRAME_COUNT))
        return count if self._is_file and 0 < count < 1 << 40 else None

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield each frame and its time in ms; raise ImageError as VideoReader does."""
        count = 0
        while True:
            ok, frame = self._capture.read()
            if not ok:
                break
            timestamp_ms = self._capture.get(self._cv2.CAP_PROP_POS_MSEC)
            count += 1
            yield cast(Image, self._cv2.cvtColor(frame, self._cv2.COLOR_BGR2RGB)), timestamp_ms
        if count == 0:
            raise ImageError(f"no frame can be read: {self._name}")
        if self.frames is not None and count < self.frames * COUNT_TRUST - 2:
            raise ImageError(
                f"the video is damaged, read {count} of {self.frames} frames: {self._name}"
            )

    def close(self) -> None:
        """Release the file or camera."""
        self._capture.release()
        self._files.close()


class Writing:
    """A file of frames that last equally long, without sound."""

    def __init__(self, path: Path, shape: tuple[int, ...], frames_per_s: float) -> None:
        """Open the file for frames of a shape, with even sides.

        Raises ImageError if it cannot be written.
        """
        import cv2

        say_once(WRITING)
        self._cv2 = cv2
        self._path = path
        self._files = ExitStack()
        height, width = shape[:2]
        codec = cv2.VideoWriter.fourcc(*CODECS[path.suffix.lower()])
        name = self._files.enter_context(_named(path))
        self._writer = cv2.VideoWriter(name, codec, frames_per_s, (width, height))
        if not self._writer.isOpened():
            self.close()
            raise ImageError(f"a video of {width}x{height} cannot be written")
        self._grid = Grid(frames_per_s)
        self._count = 0
        self._held: Image | None = None

    def prepare(self, frame: Image) -> Image:
        """Return a frame, uint8[h, w, 3], in memory of its own."""
        return cast(Image, self._cv2.cvtColor(frame, self._cv2.COLOR_RGB2BGR))

    def write(self, frame: Image, time_s: float) -> None:
        """Add a frame that `prepare` returned; the one before fills the time until then."""
        place = self._grid.place(time_s)
        while self._held is not None and self._count < place:
            self._writer.write(self._held)
            self._count += 1
        self._writer.write(frame)
        self._count += 1
        self._held = frame

    def finish(self) -> None:
        """Complete the file.

        Raises ImageError if it is not whole.
        """
        self.close()
        if not self._is_whole():
            raise ImageError("the video cannot be written whole, is the disk full")

    def _is_whole(self) -> bool:
        """Read back how many frames there are, as OpenCV reports no full disk."""
        try:
            written = Reading(str(self._path))
        except ImageError:
            return False
        count = written.frames or 0
        written.close()
        return count >= self._count * COUNT_TRUST - 2

    def close(self) -> None:
        """Release the file."""
        self._writer.release()
        self._files.close()


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
