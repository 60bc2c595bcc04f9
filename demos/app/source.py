"""Where frames come from: cameras, videos, pictures, and samples that are always there."""

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

# A camera that breaks off may only have hiccuped: it is opened again so often.
REOPENINGS = 2
MOST_CAMERAS = 8


class SourceError(ImageError):
    """A source that gives no frames (any more); problem: in a word, for what is offered next."""

    def __init__(self, problem: Problem, text: str) -> None:
        """text: one line for the user."""
        super().__init__(text)
        self.problem: Problem = problem


@dataclass(frozen=True, eq=False)
class Shot:
    """A frame of a source.

    image: uint8[h, w, 3] RGB, upright. timestamp_ms: since the source was opened, never less than
    before. is_still: a picture, which stands for itself.
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
        """What the user reads."""
        return f"Camera {self.number}"


@dataclass(frozen=True)
class Video:
    """A video file, over and over."""

    path: Path

    @property
    def title(self) -> str:
        """What the user reads."""
        return self.path.name


@dataclass(frozen=True)
class Picture:
    """A picture file."""

    path: Path

    @property
    def title(self) -> str:
        """What the user reads."""
        return self.path.name


@dataclass(frozen=True)
class Sample:
    """What comes with the application: "portrait" is a photograph where there is one."""

    kind: SampleKind = "portrait"

    @property
    def title(self) -> str:
        """What the user reads."""
        return "Sample" if self.kind == "portrait" else "Drawn sample"


Source: TypeAlias = "Camera | Video | Picture | Sample"


def read_source(text: str) -> Source:
    """The source that a text names: "sample", "drawing", the number of a camera, or a path.

    Raises SourceError if it is none of them.
    """
    if text in ("sample", "drawing"):
        return Sample("portrait" if text == "sample" else "drawing")
    if (camera := camera_number(text)) is not None:
        return Camera(camera)
    return file_source(Path(text))


def file_source(path: Path) -> Picture | Video:
    """The source that a file is, by its suffix.

    Raises SourceError if there is no such file, or it is neither.
    """
    if not os.path.isfile(path):
        raise SourceError("missing", f"no such file: {path}")
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return Video(path)
    if path.suffix.lower() in PICTURE_SUFFIXES:
        return Picture(path)
    raise SourceError("unreadable", f"neither a picture nor a video: {path.name}")


def cameras() -> list[int]:
    """The numbers of the cameras that seem to be there; where it cannot be known, the first."""
    if not sys.platform.startswith("linux"):
        return [0]
    return [number for number in range(MOST_CAMERAS) if _device(number).exists()]


def frames(source: Source, is_over: Callable[[], bool]) -> Iterator[Shot]:
    """The frames of a source at its own pace, until `is_over`; a picture has one.

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
    """Each frame when its time has come; one that is far too late moves all that follow."""
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
