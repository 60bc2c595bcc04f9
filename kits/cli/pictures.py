"""The command of a kit that takes pictures: files or a camera in; pictures, videos, JSON out."""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

from palmkit.engine.errors import PalmError
from palmkit.kits.cli.command import UsageError, progress_bar
from palmkit.kits.cli.inputs import (
    STANDARD,
    Input,
    Target,
    gather,
    is_single_file,
    named,
    targets,
)
from palmkit.kits.cli.job import Frames, Job, open_kit, print_line, to_json
from palmkit.kits.cli.process import complain, reason, write_output
from palmkit.kits.image import MAX_PIXELS, Image, Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every such command."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="IMAGE",
        help="pictures, videos or folders; -: a picture from standard input",
    )
    parser.add_argument(
        "--camera",
        type=_camera_number,
        nargs="?",
        const=0,
        metavar="N",
        help="instead of files: the frames of a camera, the first one is 0, in a window, until it"
        " is closed or Ctrl-C; with -o a video of them",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="write the drawn result: a file, a folder for many, or -: a PNG to standard output",
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


def _camera_number(text: str) -> int:
    from palmkit.kits.live import camera_number

    number = camera_number(text)
    if number is None:
        raise argparse.ArgumentTypeError(f"expected the number of a camera, got {text!r}")
    return number


def _part(text: str) -> Part:
    try:
        x, y, width, height = (float(value) for value in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected X,Y,W,H in pixels, got {text!r}") from None
    return x, y, width, height


def check(options: argparse.Namespace, job: Job[Any]) -> None:
    """Raise UsageError for what does not go together, before anything is computed or written."""
    if options.camera is not None and options.inputs:
        raise UsageError(f"--camera: expected no files with it, got {options.inputs[0]!r}")
    if options.camera is None and not options.inputs:
        raise UsageError("expected pictures, videos or folders, - for standard input, or --camera")
    if options.output == STANDARD and options.json:
        raise UsageError("-o -: standard output is that of --json, expected a file")
    is_shown = options.camera is not None and not options.json
    if job.effect and options.output is None and not is_shown:
        raise UsageError(f"{job.effect}: expected with -o, where the picture goes")


def run(options: argparse.Namespace, job: Job[Any]) -> int:
    """Do the job for every input, or for a camera; return the exit code."""
    check(options, job)
    if options.camera is not None:
        from palmkit.kits.cli import camera

        return camera.run(options, job)
    inputs, errors = gather(options.inputs)
    count = len(inputs)
    if job.is_transparent:
        told = "a video holds no transparency, expected pictures"
        errors += [f"{told}: {each.label}" for each in inputs if each.is_video]
        inputs = [each for each in inputs if not each.is_video]
    single = is_single_file(options.inputs)
    outputs = targets(inputs, options.output, single, job.suffix, job.is_transparent)
    try:
        with ExitStack() as kits:
            errors += _Runner(options, job, kits, single).run(inputs, outputs)
    except (PalmError, OSError) as error:
        errors.append(reason(error))
    for message in errors:
        complain(message)
    if errors and count > 1:
        complain(f"{len(errors)} failed, of {count}")
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

    def run(self, inputs: list[Input], outputs: list[Target]) -> list[str]:
        """Return what failed, one line each."""
        errors: list[str] = []
        if any(not each.is_video for each in inputs):
            self._image_kit = open_kit(self._options, self._job, "image", self._kits)
        bar = progress_bar(len(inputs), "file") if len(inputs) > 1 else None
        for each, output in zip(inputs, outputs, strict=True):
            lines = self._video(each, output) if each.is_video else self._picture(each, output)
            try:
                for line in lines:
                    print_line(line)
            except (PalmError, OSError) as error:
                errors.append(named(each, error))
            if bar is not None:
                if errors:
                    bar.set_postfix(failed=len(errors), refresh=False)
                bar.update()
        if bar is not None:
            bar.close()
        # For one picture the time would be that of loading and planning.
        if len(self._passed_s) > 1 and not self._options.json:
            each_ms = median(self._passed_s) * 1e3
            print_line(f"{len(self._passed_s)} pictures, {each_ms:.1f} ms each")
        return errors

    def _picture(self, each: Input, output: Target) -> Iterator[str]:
        from palmkit.kits.image import read_image, write_image

        options = self._options
        picture = read_image(
            each.source(options.max_pixels),
            rotation=options.rotation,
            flip=options.flip,
            max_pixels=options.max_pixels,
        )
        start = time.perf_counter()
        assert self._image_kit is not None
        result = self._image_kit(picture, None)
        self._passed_s.append(time.perf_counter() - start)
        if output == STANDARD:
            return write_output(_png(self._job.draw(picture, result)))
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_image(output, self._job.draw(picture, result))
        if options.json:
            found = self._job.to_dict(result, output)
            yield to_json(found if self._single else {"file": each.name, **found})
            return
        headline, *details = result.words()
        yield f"{each.label}: {headline}"
        for line in details:
            yield f"  {line}"

    def _video(self, each: Input, output: Target) -> Iterator[str]:
        from palmkit.kits.image import read_image
        from palmkit.kits.video import VideoReader, VideoWriter

        options = self._options
        target = None if output == STANDARD else output
        told = Frames(self._job, each.name, {"file": each.name}, target)
        with ExitStack() as stack:
            reader = stack.enter_context(VideoReader(each.name))
            run = open_kit(options, self._job, "video", stack)
            writer = None
            if target is not None:
                target.parent.mkdir(parents=True, exist_ok=True)
                rate = reader.frames_per_s
                writer = stack.enter_context(VideoWriter(target, rate, audio_from=reader))
            bar = progress_bar(reader.frames, "frame")
            stack.callback(bar.close)
            for raw, timestamp_ms in reader:
                frame = read_image(raw, rotation=options.rotation, flip=options.flip)
                start = time.perf_counter()
                result = run(frame, timestamp_ms)
                told.add(result, time.perf_counter() - start)
                if writer is not None:
                    writer.write(self._job.draw(frame, result), timestamp_ms)
                if options.json:
                    yield told.json(result, timestamp_ms)
                bar.update()
        if not options.json:
            yield from told.summary()


def _png(picture: Image) -> bytes:
    import PIL.Image

    held = io.BytesIO()
    PIL.Image.fromarray(picture).save(held, "PNG")
    return held.getvalue()
