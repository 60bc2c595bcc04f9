"""Helpers for small programs round a kit: frames from anywhere, and somewhere to show them.

from palmkit import kits
from palmkit.kits import live

options = live.parser("Faces, live.").parse_args()
with kits.FaceDetector("video") as detector, live.start(options) as frames:
    for frame, timestamp_ms in frames:
        frames.show(kits.draw.faces(frame, detector.detect(frame, timestamp_ms)))

The programs in demos/ are made so.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np

from palmkit import assets
from palmkit.engine.errors import PalmError
from palmkit.kits import image, screen
from palmkit.kits.cli.process import complain, ended, reason
from palmkit.kits.image import Image, read_image, write_image
from palmkit.kits.options import one_of
from palmkit.kits.stopwatch import Times
from palmkit.kits.video import FRAMES_PER_S, VideoReader, VideoWriter

SAMPLES = ("face", "hands")
# Of scikit-image (extra `demos`).
TEXTURES = ("brick", "grass", "gravel")
# Frames of what has no end, where nobody can close a window.
SAMPLE_FRAMES = 90
# The part of a sample that a frame shows, which glides over it.
VIEW = 0.86


class Window(Protocol):
    """A window that shows frames."""

    def show(self, picture: Image) -> bool:
        """Show a frame; return False when the user has closed the window."""
        ...

    def close(self) -> None:
        """Close the window; it may be closed already."""
        ...


def parser(description: str | None, source: str = "face") -> argparse.ArgumentParser:
    """Return a command line with --source, --frames, -o and --headless, for `start`.

    source: the default source.
    """
    made = plain_parser(description)
    made.add_argument(
        "--source",
        default=source,
        metavar="SOURCE",
        help="a camera's number, a video, a picture, or a moving sample: face (a photograph, "
        f"extra 'demos') or hands (drawn); ({source})",
    )
    made.add_argument("--frames", type=frame_count, metavar="N", help="stop after N frames")
    made.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write a clip, or by a picture's suffix the last frame (without a window: "
        f"build/demo/{Path(made.prog).stem}.mp4)",
    )
    made.add_argument("--headless", action="store_true", help="open no window")
    return made


def plain_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a command line that describes the program by its docstring."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def writable(path: str) -> Path:
    """Return a path whose folder is made; as an argument's type.

    Raises argparse.ArgumentTypeError if the folder cannot be made.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise argparse.ArgumentTypeError(reason(error)) from None
    return Path(path)


def start(options: argparse.Namespace) -> Live:
    """Return the frames that the options of `parser` ask for.

    Raises ImageError if the source cannot be opened, OSError if the output's folder cannot be made.
    """
    window = None if options.headless else open_window("PalmKit")
    output = options.output
    if output is None and window is None:
        output = Path("build/demo", f"{Path(sys.argv[0]).stem}.mp4")
    return Live(options.source, frames=options.frames, output=output, window=window)


def run(main: Callable[[], None]) -> None:
    """Run a program: errors that a user can fix end it with one line on standard error, code 1.

    Its streams, Ctrl-C and exit codes are those of the palmkit command.
    """

    def go() -> int:
        try:
            main()
        except (PalmError, OSError) as error:
            complain(error, by="")
            return 1
        return 0

    sys.exit(ended(go, is_process=True))


def sample(name: str) -> Image:
    """Return a picture to try things on: uint8[h, w, 3].

    name: "hands", two drawn hands; from scikit-image (extra `demos`) "face", NASA's portrait of
    Eileen Collins, and the textures "brick", "grass" and "gravel".
    Raises PalmError if scikit-image is missing, ValueError for another name.
    """
    one_of("sample", name, SAMPLES + TEXTURES)
    if name == "hands":
        return read_image(assets.path("samples/hands.jpg"))
    try:
        import skimage.data
    except ImportError:
        raise PalmError(f"the sample {name}: pip install 'palmkit[demos]' has it") from None
    return read_image(getattr(skimage.data, "astronaut" if name == "face" else name)())


class Live:
    """The frames of a source, and where they are shown and written: a context manager.

    Iterating gives each frame, uint8[h, w, 3] RGB, and its timestamp_ms, until the source ends, the
    wanted number of frames is reached, or the user closes the window.
    """

    def __init__(
        self,
        source: str,
        *,
        frames: int | None = None,
        output: Path | None = None,
        window: Window | None = None,
    ) -> None:
        """Open the source.

        source: a camera's number, a video's or a picture's path, or one of SAMPLES.
        frames: how many at most; None: all of a video, and of what has no end as many as the user
        wants, or SAMPLE_FRAMES where there is no window (of a picture 1).
        output: where `show` writes, a video or by its suffix a picture, the last one shown.
        Raises ImageError if it cannot be opened, OSError if the output's folder cannot be made.
        """
        self._output, self._window = output, window
        self._writer: VideoWriter | None = None
        self._shown: Image | None = None
        self._took = Times()
        self._began_s = self._timestamp_ms = 0.0
        camera = camera_number(source)
        self._is_open, self._is_camera = True, camera is not None
        rate, video = FRAMES_PER_S, None
        most: int | None = SAMPLE_FRAMES
        with ExitStack() as files:
            if source in SAMPLES:
                self._frames = _gliding(sample(source))
            elif Path(source).suffix.lower() in image.SUFFIXES:
                self._frames, most = _still(read_image(source)), 1
            else:
                video = files.enter_context(VideoReader(source if camera is None else camera))
                self._frames, rate = iter(video), video.frames_per_s
                most = SAMPLE_FRAMES if self._is_camera else None
            self._most = most if frames is None and window is None else frames
            if output is not None:
                output.parent.mkdir(parents=True, exist_ok=True)
                if output.suffix.lower() not in image.SUFFIXES:
                    self._writer = VideoWriter(output, rate, audio_from=video)
                    files.enter_context(self._writer)
            self._files = files.pop_all()

    def __iter__(self) -> Iterator[tuple[Image, float]]:
        """Yield frame by frame; sources other than cameras play at their own pace."""
        start_s, first_ms = time.perf_counter(), None
        for number, (frame, timestamp_ms) in enumerate(self._frames, 1):
            first_ms = timestamp_ms if first_ms is None else first_ms
            if self._window is not None and not self._is_camera:
                due_s = start_s + (timestamp_ms - first_ms) / 1e3
                time.sleep(max(due_s - time.perf_counter(), 0))
            self._began_s = time.perf_counter()
            # A camera's rate is not always what it says.
            passed_ms = (self._began_s - start_s) * 1e3
            self._timestamp_ms = passed_ms if self._is_camera else timestamp_ms
            yield frame, timestamp_ms
            if not self._is_open or number == self._most:
                break

    def show(self, picture: Image) -> None:
        """Show and write the result of the frame: uint8[h, w, 3]."""
        self._took.add((time.perf_counter() - self._began_s) * 1e3)
        self._shown = picture
        if self._window is not None:
            self._is_open = self._window.show(picture)
        if self._writer is not None:
            self._writer.write(picture, self._timestamp_ms)

    def close(self) -> None:
        """Finish the file and report how long the frames took."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Live:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it; after an error no file is left."""
        self._files.__exit__(kind, error, trace)
        if self._window is not None:
            self._window.close()
        if error is None and self._shown is not None:
            if self._output is not None and self._writer is None:
                write_image(self._output, self._shown)
            where = "" if self._output is None else f", in {self._output}"
            took = f"{self._took.median_ms():.1f} ms each (median)"
            print(f"{len(self._took)} frames, {took}{where}")
            self._shown = None


def open_window(title: str) -> Window | None:
    """Return a window as `require_window` does; None where it would raise."""
    try:
        return require_window(title)
    except PalmError:
        return None


def require_window(title: str) -> Window:
    """Return a window by Qt (PySide6, extra `demos`) or OpenCV.

    q, Escape or closing it ends the frames.
    Raises PalmError, with the reason, if there is no screen or neither can open a window on it.
    """
    if not screen.has_screen():
        raise PalmError("no window can be opened: no screen is here")
    reasons: list[str] = []
    for kind in (_QtWindow, _CvWindow):
        try:
            return kind(title)
        except ModuleNotFoundError:
            reasons.append("pip install 'palmkit[demos]' has what opens one")
        except ImportError as error:
            reasons.append(str(error))
    raise PalmError(f"no window can be opened: {reasons[0]}")


class _QtWindow:
    def __init__(self, title: str) -> None:
        from PySide6.QtGui import QImage, QKeySequence, QPixmap, QShortcut
        from PySide6.QtWidgets import QApplication, QLabel

        if why := screen.problem():
            raise ImportError(why)
        self._image, self._pixmap = QImage, QPixmap
        self._app = QApplication.instance() or QApplication([title])
        self._label = QLabel()
        self._label.setWindowTitle(title)
        for key in ("q", "Esc"):
            QShortcut(QKeySequence(key), self._label).activated.connect(self._label.close)
        self._was_shown = False

    def show(self, picture: Image) -> bool:
        height, width = picture.shape[:2]
        data = np.ascontiguousarray(picture).tobytes()
        rgb = self._image(data, width, height, 3 * width, self._image.Format.Format_RGB888)
        self._label.setPixmap(self._pixmap.fromImage(rgb))
        if not self._was_shown:
            self._label.show()
            self._was_shown = True
        self._app.processEvents()
        return self._label.isVisible()

    def close(self) -> None:
        self._label.close()


class _CvWindow:
    def __init__(self, title: str) -> None:
        import cv2

        if why := screen.problem(by_qt=False):
            raise ImportError(why)
        self._cv2, self._title = cv2, title
        try:
            cv2.namedWindow(title)
        except cv2.error:
            raise ImportError("this OpenCV was built without windows") from None

    def show(self, picture: Image) -> bool:
        self._cv2.imshow(self._title, self._cv2.cvtColor(picture, self._cv2.COLOR_RGB2BGR))
        return self._cv2.waitKey(1) & 0xFF not in (ord("q"), 27)

    def close(self) -> None:
        self._cv2.destroyAllWindows()


def _gliding(picture: Image) -> Iterator[tuple[Image, float]]:
    """Yield parts of a picture without end, as if a camera moved a little."""
    height, width = (int(side * VIEW) // 2 * 2 for side in picture.shape[:2])
    room = np.array(picture.shape[:2]) - (height, width)
    for index in count():
        swing = (math.sin(index / 22), math.sin(index / 15))
        top, left = ((1 + np.array(swing)) / 2 * room).round().astype(int).tolist()
        frame = np.ascontiguousarray(picture[top : top + height, left : left + width])
        yield frame, index * 1e3 / FRAMES_PER_S


def _still(picture: Image) -> Iterator[tuple[Image, float]]:
    return ((picture, index * 1e3 / FRAMES_PER_S) for index in count())


def camera_number(text: str) -> int | None:
    """Return the camera number in a text of at most ten digits; None if it is none."""
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    return int(text) if is_number else None


def frame_count(text: str) -> int:
    """Parse a number of frames, at least 1, of a command line.

    Raises argparse.ArgumentTypeError for anything else.
    """
    with suppress(ValueError):
        if (number := int(text)) >= 1:
            return number
    raise argparse.ArgumentTypeError(f"expected a number of frames, at least 1: {text!r}")
