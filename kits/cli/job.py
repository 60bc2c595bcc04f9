"""A command's work on pictures: what it does to each, and what is told of it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from palmkit.engine.errors import PalmError
from palmkit.kits.cli.command import above_bars
from palmkit.kits.cli.process import shown
from palmkit.kits.image import Image, Part
from palmkit.kits.results import PictureResult
from palmkit.kits.table import Entry

# So many headlines of a video are told.
TOLD = 8
AnyResult = TypeVar("AnyResult", bound="PictureResult")


def _drawn(image: Image, result: PictureResult) -> Image:
    return result.draw(image)


def _to_dict(result: PictureResult, written: Path | None) -> dict[str, Any]:
    return result.to_dict()


@dataclass(frozen=True)
class Job(Generic[AnyResult]):
    """A command's work on pictures.

    open: for "image" or "video", opens a function from a frame and its timestamp_ms to a result.
    draw: draws the result on the frame. to_dict: returns the JSON of a result, and of the file that
    it was drawn in, if any. suffix: of the pictures that are written to a folder; None: as they
    were read. effect: the flag of what only the written picture shows. is_transparent: whether
    pictures are written with their opacity, which videos cannot hold.
    """

    open: Callable[[Any], AbstractContextManager[Callable[[Image, float | None], AnyResult]]]
    draw: Callable[[Image, AnyResult], Image] = _drawn
    to_dict: Callable[[AnyResult, Path | None], dict[str, Any]] = _to_dict
    suffix: str | None = None
    effect: str = ""
    is_transparent: bool = False


def opener(
    entry: Entry, given: Mapping[str, Any], roi: Part | None
) -> Callable[[Any], AbstractContextManager[Callable[[Image, float | None], Any]]]:
    """Return a function for Job.open: a kit of the table with these options."""

    @contextmanager
    def opened(mode: str) -> Generator[Callable[[Image, float | None], Any]]:
        with entry.load_kit()(mode, **given) as kit:
            yield partial(getattr(kit, entry.method), roi=roi)

    return opened


def open_kit(
    options: argparse.Namespace, job: Job[Any], mode: str, kits: ExitStack
) -> Callable[[Image, float | None], Any]:
    """Return the job's function; the kit is open as long as the stack.

    An option that cannot be ends the command with its usage error.
    """
    try:
        return kits.enter_context(job.open(mode))
    except PalmError:
        raise
    except ValueError as error:
        options.usage_error(str(error))
        raise


class Frames:
    """What is told of the frames of a video or a camera: JSON line by line, or a summary."""

    def __init__(
        self, job: Job[Any], name: str, source: Mapping[str, Any], output: Path | None
    ) -> None:
        """Begin.

        name: of the video, for people. source: the same for JSON. output: the file that the frames
        are drawn in.
        """
        self._job, self._name, self._source, self._output = job, name, source, output
        self._count, self._passed_s = 0, 0.0
        self._headlines = Counter[str]()

    def add(self, result: PictureResult, passed_s: float) -> None:
        """Count a frame.

        passed_s: what finding the result took.
        """
        self._count += 1
        self._passed_s += passed_s
        self._headlines[result.words()[0]] += 1

    def json(self, result: PictureResult, timestamp_ms: float) -> str:
        """Return the line of the last frame that was counted."""
        at = {"frame": self._count - 1, "timestamp_ms": round(timestamp_ms, 3)}
        return to_json({**self._source, **at, **self._job.to_dict(result, self._output)})

    def summary(self) -> Iterator[str]:
        """Yield what is told of them all."""
        each_ms = self._passed_s / max(self._count, 1) * 1e3
        yield f"{self._name}: {self._count} frames, {each_ms:.1f} ms each"
        told = self._headlines.most_common(TOLD)
        for headline, frames in told:
            yield f"  {headline} in {frames}"
        if others := self._count - sum(frames for _, frames in told):
            yield f"  others in {others}"


def print_line(line: str) -> None:
    """Print a line on standard output, above a progress bar."""
    with above_bars():
        print(shown(line, ""), flush=True)


def to_json(found: dict[str, Any]) -> str:
    """Return a line of JSON."""
    return json.dumps(found, allow_nan=False)
