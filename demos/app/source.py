"""Sources of frames: cameras, videos, pictures, and samples that are always available."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from palmkit.demos.app.sample import sample_frames
from palmkit.engine.errors import ImageError
from palmkit.kits import read_image
from palmkit.kits.image import SUFFIXES as PICTURE_SUFFIXES
from palmkit.kits.image import Image
from palmkit.kits.live import camera_number
from palmkit.kits.video import SUFFIXES as VIDEO_SUFFIXES
from palmkit.kits.video import VideoReader

Problem: TypeAlias = Literal["missing", "in use", "unplugged", "unreadable"]
SampleKind: TypeAlias = Literal["portrait", "drawing"]

# A camera may fail briefly: it is reopened up to this many times.
REOPENINGS = 2
MOST_CAMERAS = 8


class SourceError(ImageError):
    """Raised when a source gives no frames (any more).

    problem: the kind of problem, which decides what is offered next.
    """

    def __init__(self, problem: Problem, text: str) -> None:
        """Make the error.

        text: one line for the user.
        """
        super().__init__(text)
        self.problem: Problem = problem


@dataclass(frozen=True, eq=False)
class Shot:
    """A frame of a source.

    image: uint8[h, w, 3] RGB, upright. timestamp_ms: since the source was opened, never decreasing.
    is_still: whether it is a picture on its own.
    """

    image: Image
    timestamp_ms: float
    is_still: bool = False


@dataclass(frozen=True)
class Camera:
    """A camera, by its number."""

    number: int = 0
    mirrored: bool = True

    @property
    def title(self) -> str:
        """Return the title for the user."""
        return f"Camera {self.number}"


@dataclass(frozen=True)
class Video:
    """A video file, played in a loop."""

    path: Path

    @property
    def title(self) -> str:
        """Return the title for the user."""
        return self.path.name


@dataclass(frozen=True)
class Picture:
    """A picture file."""

    path: Path

    @property
    def title(self) -> str:
        """Return the title for the user."""
        return self.path.name


@dataclass(frozen=True)
class Sample:
    """A sample that comes with the application; "portrait" is a photograph if available."""

    kind: SampleKind = "portrait"

    @property
    def title(self) -> str:
        """Return the title for the user."""
        return "Sample" if self.kind == "portrait" else "Drawn sample"


Source: TypeAlias = "Camera | Video | Picture | Sample"


def read_source(text: str) -> Source:
    """Return the source of a text: "sample", "drawing", the number of a camera, or a path.

    Raises SourceError if it is none of them.
    """
    if text in ("sample", "drawing"):
        return Sample("portrait" if text == "sample" else "drawing")
    if (camera := camera_number(text)) is not None:
        return Camera(camera)
    return file_source(Path(text))


def file_source(path: Path) -> Picture | Video:
    """Return the source of a file, by its suffix.

    Raises SourceError if there is no such file, or it is neither picture nor video.
    """
    if not os.path.isfile(path):
        raise SourceError("missing", f"no such file: {path}")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return Video(path)
    if path.suffix.lower() in PICTURE_SUFFIXES:
        return Picture(path)
    raise SourceError("unreadable", f"neither a picture nor a video: {path.name}")


def cameras() -> list[int]:
    """Return the numbers of the available cameras; if that is unknown, the first."""
    if not sys.platform.startswith("linux"):
        return [0]
    return [number for number in range(MOST_CAMERAS) if _device(number).exists()]


def frames(source: Source, is_over: Callable[[], bool]) -> Iterator[Shot]:
    """Yield the frames of a source at its own pace, until `is_over`; a picture has one.

    Raises SourceError when there are none, or no more.
    """
    match source:
        case Camera():
            return _camera(source, is_over)
        case Video():
            return _video(source, is_over)
        case Picture():
            return _picture(source)
        case Sample():
            return _paced(sample_frames(source.kind), is_over)


def _picture(source: Picture) -> Iterator[Shot]:
    try:
        yield Shot(read_image(source.path), 0.0, is_still=True)
    except ImageError as error:
        raise SourceError("unreadable", f"picture cannot be read: {error}") from error


def _video(source: Video, is_over: Callable[[], bool]) -> Iterator[Shot]:
    start_ms = 0.0
    while not is_over():
        last_ms, period_ms = start_ms, 1000 / 30
        try:
            with VideoReader(source.path) as video:
                period_ms = 1000 / video.frames_per_s
                moved = ((image, start_ms + ms) for image, ms in video)
                for shot in _paced(moved, is_over, start_ms):
                    last_ms = max(last_ms, shot.timestamp_ms)
                    yield shot
        except ImageError as error:
            raise SourceError("unreadable", f"video cannot be read: {error}") from error
        start_ms = last_ms + period_ms


def _paced(
    timed: Iterator[tuple[Image, float]], is_over: Callable[[], bool], start_ms: float = 0.0
) -> Iterator[Shot]:
    """Yield each frame when its time has come; a very late one shifts all that follow."""
    began = time.perf_counter() - start_ms / 1e3
    for image, at_ms in timed:
        late = time.perf_counter() - began - at_ms / 1e3
        if late > 1:
            began += late
        while late < 0 and not is_over():
            time.sleep(min(-late, 0.1))
            late = time.perf_counter() - began - at_ms / 1e3
        if is_over():
            return
        yield Shot(image, at_ms)


def _camera(source: Camera, is_over: Callable[[], bool]) -> Iterator[Shot]:
    began, count = time.perf_counter(), 0
    for attempt in range(1 + REOPENINGS):
        try:
            with VideoReader(source.number) as video:
                for image, _ in video:
                    if is_over():
                        return
                    count += 1
                    picture = image[:, ::-1].copy() if source.mirrored else image
                    yield Shot(picture, (time.perf_counter() - began) * 1e3)
        except ImageError:
            if count == 0:
                raise _no_camera(source.number) from None
        if not _is_there(source.number) or attempt == REOPENINGS:
            raise SourceError("unplugged", f"camera {source.number} gives no more pictures")
        time.sleep(0.3)


def _no_camera(number: int) -> SourceError:
    if not _is_there(number):
        return SourceError("missing", f"no camera {number} is here")
    return SourceError(
        "in use", f"camera {number} cannot be opened: another program may be using it"
    )


def _is_there(number: int) -> bool:
    return not sys.platform.startswith("linux") or _device(number).exists()


def _device(number: int) -> Path:
    return Path(f"/dev/video{number}")
