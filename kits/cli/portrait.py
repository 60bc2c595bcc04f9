"""palmkit portrait: find people, pixel by pixel."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command, meant_file
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.portrait.options import PortraitOptions, SegmenterOptions
from palmkit.kits.table import KITS, Entry

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.portrait.compose import Backdrop, Background
    from palmkit.kits.results import Mask

BLUR, TRANSPARENT = "blur", "transparent"
EXAMPLES = """\
  palmkit portrait me.jpg                           how much of the picture is person
  palmkit portrait me.jpg -o mask.png               the mask: white is person
  palmkit portrait me.jpg -o away.jpg --background beach.jpg
  palmkit portrait me.jpg -o away.jpg --background blur
  palmkit portrait me.jpg -o cut.png --background transparent
  palmkit portrait me.jpg --json -o mask.png        {"width": ..., "mask": "mask.png", ...}
  palmkit portrait clip.mp4 -o away.mp4 --background "#20304a"
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "portrait",
        run,
        help="find people pixel by pixel, put other backgrounds behind them",
        description="Find the people in pictures and videos, pixel by pixel.",
        examples=EXAMPLES,
    )
    add_mask_arguments(parser, PortraitOptions)


def add_mask_arguments(parser: argparse.ArgumentParser, kind: type[SegmenterOptions]) -> None:
    """Add the arguments shared with palmkit hair.

    kind: the options of the kit.
    """
    pictures.add_arguments(parser)
    written = parser.add_argument_group("what is written with -o (the mask, 8-bit gray)")
    written = written.add_mutually_exclusive_group()
    written.add_argument(
        "--background",
        metavar="B",
        help="the picture on another background: blur, blur=SIGMA in pixels, #rrggbb,"
        " a picture file, or transparent",
    )
    written.add_argument("--overlay", action="store_true", help="the picture with the mask tinted")
    flags.add(parser, kind, leave_out=("background",))


def run(options: argparse.Namespace) -> int:
    """Find the people in every input."""
    return run_segmenter(options, KITS["portrait"])


def run_segmenter(options: argparse.Namespace, entry: Entry) -> int:
    """Do what add_mask_arguments describes with a kit."""
    from palmkit.kits import draw

    transparent = options.background == TRANSPARENT
    backdrop = None
    if options.background is not None and not transparent:
        backdrop = _backdrop(options.background)
    # A window shows better where people are than a mask would.
    is_live = options.camera is not None and options.output is None
    is_tinted = options.overlay or (is_live and options.background is None)
    is_mask = options.background is None and not is_tinted

    given = {**flags.chosen(options, entry.load_options()), "background": backdrop}
    opened = opener(entry, given, options.roi)

    def drawn(image: Image, mask: Mask) -> Image:
        if is_tinted:
            return draw.mask(image, mask)
        if transparent:
            return mask.cutout()
        return mask.gray() if mask.picture is None else mask.picture

    def described(mask: Mask, output: Path | None) -> dict[str, Any]:
        found = mask.to_dict()
        if output is not None:
            found["mask" if is_mask else "picture"] = os.fspath(output)
        return found

    suffix = ".png" if is_mask or transparent else None
    effect = "--overlay" if options.overlay else ""
    if options.background is not None:
        effect = "--background"
    return pictures.run(options, Job(opened, drawn, described, suffix, effect, transparent))


def _backdrop(text: str) -> Backdrop:
    """Return the background that the command line's word means.

    Raises UsageError if it means none, ImageError if it means a picture that cannot be read.
    """
    from palmkit.engine.errors import ImageError
    from palmkit.kits.portrait.compose import Backdrop

    kind, _, sigma = text.partition("=")
    background: Background = text
    try:
        if kind == BLUR and sigma:
            background = float(sigma)
    except ValueError:
        raise UsageError(
            f"--background: expected a number of pixels, as in blur=8, got {text!r}"
        ) from None
    try:
        return Backdrop(background)
    except ImageError as error:
        raise ImageError(f"--background: {error}{meant_file(text, BLUR, TRANSPARENT)}") from None
    except ValueError as error:
        raise UsageError(f"--{error}") from None
