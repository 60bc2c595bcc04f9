"""The command of a kit that takes pictures: files in; pictures, videos, JSON or a summary out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

from palmkit.engine.errors import PalmError
from palmkit.kits.cli.command import progress_bar
from palmkit.kits.cli.inputs import Input, gather, is_single_file, targets
from palmkit.kits.cli.process import complain, reason, shown
from palmkit.kits.image import MAX_PIXELS, Image, Part
from palmkit.kits.results import PictureResult
from palmkit.kits.table import Entry

AnyResult = TypeVar("AnyResult", bound="PictureResult")


def _drawn(image: Image, result: PictureResult) -> Image:
    return result.drawn(image)


def _to_dict(result: PictureResult, written: Path | None) -> dict[str, Any]:
    return result.to_dict()


@dataclass(frozen=True)
class Job(Generic[AnyResult]):
    """A command's work on pictures.

    open: for "image" or "video", opens a function from a frame and its timestamp_ms to a result.
    draw: draws the result on the frame. to_dict: returns the JSON of a result, and of the file that
    it was drawn in, if any. suffix: of the pictures that are written to a folder; None: as they
    were read.
    """

    open: Callable[[Any], AbstractContextManager[Callable[[Image, float | None], AnyResult]]]
    draw: Callable[[Image, AnyResult], Image] = _drawn
    to_dict: Callable[[AnyResult, Path | None], dict[str, Any]] = _to_dict
    suffix: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every such command."""
    parser.add_argument("inputs", nargs="+", metavar="IMAGE", help="pictures, videos or folders")
    parser.add_argument(
        "-o", "--output", metavar="OUT", help="write the drawn result: a file, or a folder for many"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON: an object for one picture, else a line for each picture or frame",
    )
    given = parser.add_argument_group("the pictures")
    given.add_argument(
        "--rotation",
        type=int,
        choices=(0, 90, 180, 270),
        default=0,
        help="degrees clockwise that turn them upright, after EXIF (0)",
    )
    given.add_argument("--flip", choices=("horizontal", "vertical"), help="mirror them, after that")
    given.add_argument(
        "--roi", type=_part, metavar="X,Y,W,H", help="search only there, in pixels, upright"
    )
    given.add_argument(
        "--max-pixels",
        type=int,
        default=MAX_PIXELS,
        metavar="N",
        help=f"refuse larger pictures before they are decoded ({MAX_PIXELS})",
    )


def opener(
    entry: Entry, given: Mapping[str, Any], roi: Part | None
) -> Callable[[Any], AbstractContextManager[Callable[[Image, float | None], Any]]]:
    """Return a function for Job.open: a kit of the table with these options."""

    @contextmanager
    def opened(mode: str) -> Generator[Callable[[Image, float | None], Any]]:
        with entry.load_kit()(mode, **given) as kit:
            yield partial(getattr(kit, entry.method), roi=roi)

    return opened


def _part(text: str) -> Part:
    try:
        x, y, width, height = (float(value) for value in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected X,Y,W,H in pixels, got {text!r}") from None
    return x, y, width, height


def run(options: argparse.Namespace, job: Job[Any]) -> int:
    """Do the job for every input; return the exit code."""
    inputs, errors = gather(options.inputs)
    single = is_single_file(options.inputs)
    outputs = targets(inputs, options.output, single, job.suffix)
    try:
        with ExitStack() as kits:
            errors += _Runner(options, job, kits, single).run(inputs, outputs)
    except (PalmError, OSError) as error:
        errors.append(reason(error))
    for message in errors:
        complain(message)
    if errors and len(inputs) > 1:
        complain(f"{len(errors)} failed, of {len(inputs)}")
    return 1 if errors else 0


class _Runner:
    def __init__(
        self, options: argparse.Namespace, job: Job[Any], kits: ExitStack, single: bool
    ) -> None:
        self._options = options
        self._job = job
        self._kits = kits
        self._single = single
        self._image_kit: Callable[[Image, float | None], Any] | None = None
        self._passed_s: list[float] = []

    def run(self, inputs: list[Input], outputs: list[Path | None]) -> list[str]:
        """Return what failed, one line each."""
        errors: list[str] = []
        if any(not each.is_video for each in inputs):
            self._image_kit = self._open("image", self._kits)
        bar = progress_bar(len(inputs), "file") if len(inputs) > 1 else None
        for each, output in zip(inputs, outputs, strict=True):
            lines = self._video(each, output) if each.is_video else self._picture(each, output)
            try:
                for line in lines:
                    self._print(line)
            except (PalmError, OSError) as error:
                errors.append(_named(each, error))
            if bar is not None:
                if errors:
                    bar.set_postfix(failed=len(errors), refresh=False)
                bar.update()
        if bar is not None:
            bar.close()
        # For one picture the time would be that of loading and planning.
        if len(self._passed_s) > 1 and not self._options.json:
            each_ms = median(self._passed_s) * 1e3
            self._print(f"{len(self._passed_s)} pictures, {each_ms:.1f} ms each")
        return errors

    def _open(self, mode: str, kits: ExitStack) -> Callable[[Image, float | None], Any]:
        try:
            return kits.enter_context(self._job.open(mode))
        except PalmError:
            raise
        except ValueError as error:
            self._options.usage_error(str(error))
            raise

    def _picture(self, each: Input, output: Path | None) -> Iterator[str]:
        from palmkit.kits.image import read_image, write_image

        options = self._options
        picture = read_image(
            each.name,
            rotation=options.rotation,
            flip=options.flip,
            max_pixels=options.max_pixels,
        )
        start = time.perf_counter()
        assert self._image_kit is not None
        result = self._image_kit(picture, None)
        self._passed_s.append(time.perf_counter() - start)
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_image(output, self._job.draw(picture, result))
        if options.json:
            found = self._job.to_dict(result, output)
            yield _json(found if self._single else {"file": each.name, **found})
            return
        headline, *details = result.words()
        yield f"{each.name}: {headline}"
        for line in details:
            yield f"  {line}"

    def _video(self, each: Input, output: Path | None) -> Iterator[str]:
        from palmkit.kits.image import read_image
        from palmkit.kits.video import VideoReader, VideoWriter

        options = self._options
        count, passed_s, headlines = 0, 0.0, Counter[str]()
        with ExitStack() as stack:
            reader = stack.enter_context(VideoReader(each.name))
            run = self._open("video", stack)
            writer = None
            if output is not None:
                output.parent.mkdir(parents=True, exist_ok=True)
                writer = stack.enter_context(VideoWriter(output, reader.frames_per_s))
            bar = progress_bar(reader.frames, "frame")
            stack.callback(bar.close)
            for raw, timestamp_ms in reader:
                frame = read_image(raw, rotation=options.rotation, flip=options.flip)
                start = time.perf_counter()
                result = run(frame, timestamp_ms)
                passed_s += time.perf_counter() - start
                if writer is not None:
                    writer.write(self._job.draw(frame, result))
                if options.json:
                    at = {"frame": count, "timestamp_ms": round(timestamp_ms, 3)}
                    found = self._job.to_dict(result, output)
                    yield _json({"file": each.name, **at, **found})
                count += 1
                headlines[result.words()[0]] += 1
                bar.update()
        if not options.json:
            yield f"{each.name}: {count} frames, {passed_s / count * 1e3:.1f} ms each"
            for headline, frames in headlines.most_common():
                yield f"  {headline} in {frames}"

    def _print(self, line: str) -> None:
        from tqdm import tqdm

        with tqdm.external_write_mode(file=sys.stdout):
            print(shown(line, ""), flush=True)


def _json(found: dict[str, Any]) -> str:
    return json.dumps(found, allow_nan=False)


def _named(each: Input, error: Exception) -> str:
    message = reason(error)
    return message if each.name in message else f"{each.name}: {message}"
