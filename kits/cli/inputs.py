"""The pictures and videos that paths of the command line name, and the paths of results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palmkit.kits import image, video
from palmkit.kits.cli.command import UsageError

# Formats that write_image would write with a loss.
REWRITTEN = {".gif": ".png"}


@dataclass(frozen=True)
class Input:
    """A file to work on.

    name: its name for the user; place: its path below an output folder.
    """

    path: Path
    name: str
    place: Path
    is_video: bool


def gather(paths: Sequence[str]) -> tuple[list[Input], list[str]]:
    """Find every picture and video among the files and, recursively, in the folders given.

    In a folder the suffix decides and hidden files are left out; a file given by name without a
    video's suffix is taken for a picture. Returns the inputs, and the errors of some paths.
    """
    inputs: list[Input] = []
    errors: list[str] = []
    for text in paths:
        if not text:
            errors.append("expected a file or folder, got an empty name")
            continue
        path = Path(text)
        if not path.is_dir():
            inputs.append(Input(path, text, Path(path.name), _is_video(path)))
            continue
        found = [
            Input(each, str(each), each.relative_to(path), _is_video(each))
            for each in _files(path)
            if _is_video(each) or each.suffix.lower() in image.SUFFIXES
        ]
        if not found:
            errors.append(f"no picture or video in the folder: {text}")
        inputs += found
    return inputs, errors


def _files(folder: Path) -> list[Path]:
    files: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(here, name) for name in sorted(names) if not name.startswith(".")]
    return files


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in video.SUFFIXES


def is_single_file(paths: Sequence[str]) -> bool:
    """Return whether just one file, and not a folder, was named."""
    return len(paths) == 1 and not Path(paths[0]).is_dir()


def targets(
    inputs: Sequence[Input], output: str | None, single: bool, suffix: str | None = None
) -> list[Path | None]:
    """Return where each input's picture or video is written; None: nowhere.

    suffix: of the pictures in a folder; None: as they were read.

    Raises UsageError where two would be written to the same file, or one over its own source.
    """
    if output is None:
        return [None] * len(inputs)
    if not output:
        raise UsageError("-o: expected a file or folder, got an empty name")
    folder = Path(output)
    if single and not folder.is_dir() and not output.endswith(("/", os.sep)):
        found = [folder]
        known = video.CODECS if inputs[0].is_video else image.SUFFIXES
        if folder.suffix.lower() not in known:
            kind = "a video" if inputs[0].is_video else "a picture"
            raise UsageError(f"-o: not the name of {kind} ({', '.join(sorted(known))}): {output}")
    else:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"-o: expected a folder for many results, this is a file: {output}")
        found = [folder / _written(each, suffix) for each in inputs]
    sources = {each.path.absolute() for each in inputs}
    seen: set[Path] = set()
    for path in found:
        if path.absolute() in sources or any(_same(path, source) for source in sources):
            raise UsageError(f"-o: would write over an input: {path}")
        if path in seen:
            raise UsageError(f"-o: two inputs would be written to the same file: {path}")
        seen.add(path)
    return list(found)


def _written(each: Input, wanted: str | None) -> Path:
    suffix = each.place.suffix.lower()
    if each.is_video:
        return each.place if suffix in video.CODECS else each.place.with_suffix(".mp4")
    if wanted is not None:
        return each.place.with_suffix(wanted)
    if suffix in image.SUFFIXES and suffix not in REWRITTEN:
        return each.place
    return each.place.with_suffix(REWRITTEN.get(suffix, ".png"))


def _same(a: Path, b: Path) -> bool:
    return a.name == b.name and a.exists() and b.exists() and a.samefile(b)
