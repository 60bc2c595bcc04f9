"""palmkit portrait: find people, pixel by pixel."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.kit import Mode
    from palmkit.kits.portrait.compose import Background
    from palmkit.kits.portrait.kit import Segmenter
    from palmkit.kits.portrait.result import Mask

TRANSPARENT = "transparent"
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
    add_mask_arguments(parser)
    parser.add_argument_group("pictures").add_argument(
        "--no-second-look",
        dest="second_look",
        action="store_false",
        help="look at the whole picture alone, not closer at the people: faster, less exact",
    )


def add_mask_arguments(parser: argparse.ArgumentParser) -> None:
    """What this command and palmkit hair share."""
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
    made = parser.add_argument_group("how the mask is made")
    made.add_argument(
        "--no-refine",
        dest="refine",
        action="store_false",
        help="the network's mask enlarged, not fitted to the picture's edges",
    )
    made.add_argument(
        "--no-smoothing", dest="smoothing", action="store_false", help="videos: each frame alone"
    )
    pictures.add_kit_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Find the people in every input."""
    from palmkit.kits.portrait.kit import PortraitSegmenter

    return run_segmenter(options, PortraitSegmenter, {"second_look": options.second_look})


def run_segmenter(
    options: argparse.Namespace, kit: Callable[..., Segmenter], more: dict[str, Any]
) -> int:
    """Do what add_mask_arguments describes with a kit; `more` are options of it alone."""
    from palmkit.engine.errors import ImageError
    from palmkit.kits import draw
    from palmkit.kits.portrait.compose import Backdrop

    transparent = options.background == TRANSPARENT
    backdrop = None
    if options.background is not None and not transparent:
        try:
            backdrop = Backdrop(_background(options.background))
        except ImageError:
            raise
        except ValueError as error:
            raise UsageError(f"--{error}") from None
    is_mask = options.background is None and not options.overlay

    @contextmanager
    def opened(mode: Mode) -> Generator[Callable[[Image, float | None], Mask]]:
        with kit(
            mode,
            threads=options.threads,
            precision=options.precision,
            background=backdrop,
            refine=options.refine,
            smoothing=options.smoothing,
            model=options.model,
            **more,
        ) as segmenter:
            yield lambda image, timestamp_ms: segmenter.segment(
                image, timestamp_ms, roi=options.roi
            )

    def drawn(image: Image, mask: Mask) -> Image:
        if options.overlay:
            return draw.mask(image, mask)
        if transparent:
            return mask.cutout()
        return mask.gray() if mask.picture is None else mask.picture

    def described(mask: Mask, output: Path | None) -> dict[str, Any]:
        found = mask.to_dict(output if is_mask else None)
        if output is not None and not is_mask:
            found["picture"] = os.fspath(output)
        return found

    suffix = ".png" if is_mask or transparent else None
    job = pictures.Job(opened, drawn, described, _words, lambda mask: [], suffix)
    return pictures.run(options, job)


def _background(text: str) -> Background:
    """What the command line's word means."""
    kind, _, sigma = text.partition("=")
    if kind != "blur" or not sigma:
        return text
    try:
        return float(sigma)
    except ValueError:
        raise ValueError(f"background: expected a number of pixels, got {text!r}") from None


def _words(mask: Mask) -> str:
    return f"{100 * mask.coverage:.0f} % of the pixels"
