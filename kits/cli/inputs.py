"""The pictures and videos that paths of the command line name, and where results go."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from palmkit.kits import image, video
from palmkit.kits.cli.command import UsageError, meant_file
from palmkit.kits.cli.process import reason

if TYPE_CHECKING:
    from palmkit.kits.image import Source

# Standard input among inputs, standard output as an output; a file of this name is ./-.
STANDARD: Literal["-"] = "-"
# A file, standard output, or nowhere.
Target: TypeAlias = "Path | Literal['-'] | None"
# Formats that write_image would write with a loss.
REWRITTEN = {".gif": ".png"}
# Windows' shells leave wildcards to programs.
_SHELLS_EXPAND = sys.platform != "win32"
_CASE_COUNTS = sys.platform not in ("darwin", "win32")


@dataclass(frozen=True)
class Input:
    """A file to work on, or standard input.

    name: its name for the user; place: its path below an output folder.
    """

    path: Path
    name: str
    place: Path
    is_video: bool = False

    @property
    def label(self) -> str:
        """Its name in sentences."""
        return "standard input" if self.name == STANDARD else self.name

    def source(self) -> Source:
        """Return what read_image takes."""
        return sys.stdin.buffer if self.name == STANDARD else self.name


def gather(paths: Sequence[str]) -> tuple[list[Input], list[str]]:
    """Find every picture and video among the files and, recursively, in the folders given.

    In a folder the suffix decides and hidden files are left out; a file given by name without a
    video's suffix is taken for a picture, as is what comes from standard input. Returns the inputs,
    and the errors of some paths.
    Raises UsageError if standard input is to be read from a terminal, or twice.
    """
    inputs: list[Input] = []
    errors: list[str] = []
    for text in [each for path in paths for each in _expanded(path)]:
        if not text:
            errors.append("expected a file or folder, got an empty name")
            continue
        path = Path(text)
        if text == STANDARD:
            if sys.stdin.isatty():
                raise UsageError("-: expected a picture on standard input, this is a terminal")
            if any(each.name == STANDARD for each in inputs):
                raise UsageError("-: standard input can be read once only")
            inputs.append(Input(path, text, Path("stdin")))
            continue
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


def _expanded(text: str) -> list[str]:
    """Return what a text with wildcards names, itself if that is nothing."""
    if _SHELLS_EXPAND or not any(wildcard in text for wildcard in "*?"):
        return [text]
    return sorted(glob(text)) or [text]


def _files(folder: Path) -> list[Path]:
    files: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(here, name) for name in sorted(names) if not name.startswith(".")]
    return files


def _is_video(path: Path) -> bool:
    return path.suffix.lower() in video.SUFFIXES


def named(each: Input, error: Exception) -> str:
    """Return a message about an input: what went wrong, with which, and which may be meant."""
    message = reason(error)
    told = message if each.label in message else f"{each.label}: {message}"
    return told if each.name == STANDARD else told + meant_file(each.name)


def is_single_file(paths: Sequence[str]) -> bool:
    """Return whether just one file, and not a folder, was named."""
    found = [each for path in paths for each in _expanded(path)]
    return len(found) == 1 and not Path(found[0]).is_dir()


def targets(
    inputs: Sequence[Input],
    output: str | None,
    single: bool,
    suffix: str | None = None,
    transparent: bool = False,
) -> list[Target]:
    """Return where each input's picture or video is written.

    suffix: of the pictures in a folder; None: as they were read. transparent: pictures are written
    with their opacity.

    Raises UsageError where two would be written to the same file, or one over its own source, and
    for a name that is not of what would be written.
    """
    if output is None:
        return [None] * len(inputs)
    if not output:
        raise UsageError("-o: expected a file or folder, got an empty name")
    if output == STANDARD:
        return _to_standard_output(inputs, single)
    folder = Path(output)
    if single and not folder.is_dir() and not output.endswith(("/", os.sep)):
        found = [folder] * len(inputs)
        if inputs:
            check_name(folder, inputs[0].is_video, transparent)
    else:
        _check_folder(output)
        found = [folder / _written(each, suffix) for each in inputs]
    sources = {each.path.absolute() for each in inputs if each.name != STANDARD}
    seen: set[str] = set()
    for path in found:
        name = str(path) if _CASE_COUNTS else str(path).lower()
        if path.absolute() in sources or any(_same(path, source) for source in sources):
            raise UsageError(f"-o: would write over an input: {path}")
        if name in seen:
            raise UsageError(f"-o: two inputs would be written to the same file: {path}")
        seen.add(name)
    return list(found)


def _to_standard_output(inputs: Sequence[Input], single: bool) -> list[Target]:
    if not single:
        raise UsageError("-o -: expected one picture, got several or a folder")
    if any(each.is_video for each in inputs):
        raise UsageError("-o -: expected a picture, a video is written to a file only")
    if sys.stdout.isatty():
        raise UsageError("-o -: expected a pipe or a file, standard output is a terminal")
    return [STANDARD] * len(inputs)


def check_name(target: Path, is_video: bool, transparent: bool = False) -> None:
    """Raise UsageError if the suffix is not of a video, or picture, that can be written."""
    suffix, kind = target.suffix.lower(), "video" if is_video else "picture"
    known = video.CODECS if is_video else image.SUFFIXES
    if suffix not in known:
        raise UsageError(f"-o: not the name of a {kind} ({', '.join(sorted(known))}): {target}")
    if transparent and suffix not in image.TRANSPARENT:
        also = ", ".join(image.TRANSPARENT[1:])
        raise UsageError(f"-o: a transparent picture must be PNG (or {also}), got {target}")


def _check_folder(output: str) -> None:
    """Raise UsageError if the output is no name of a folder for many results."""
    folder = Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-o: expected a folder for many results, this is a file: {output}")
    is_named_as_file = folder.suffix.lower() in (*image.SUFFIXES, *video.SUFFIXES)
    if is_named_as_file and not folder.exists() and not output.endswith(("/", os.sep)):
        raise UsageError(
            f"-o: expected a folder for many results, this is the name of a file: {output}"
        )


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
