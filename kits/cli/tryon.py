"""palmkit tryon: make-up, hair dye and glasses on faces."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command, proposing
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.table import KITS
from palmkit.kits.tryon.options import TryOnOptions
from palmkit.kits.tryon.palettes import EFFECTS, presets, shades

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.results import TriedOn
    from palmkit.kits.tryon.look import Look

EXAMPLES = """\
  palmkit tryon me.jpg -o red.jpg --lipstick classic_red
  palmkit tryon me.jpg -o new.jpg --lipstick "#b3202a" --hair violet --glasses gold_aviator
  palmkit tryon me.jpg -o out.jpg --look evening --view before-after
  palmkit tryon me.jpg -o out.jpg --look evening --lipstick nude --save-look mine.json
  palmkit tryon clip.mp4 -o mirror.mp4 --look mine.json --view split
  palmkit tryon --camera --flip horizontal --look party       a mirror
  palmkit tryon --shades                        names of shades, glasses and looks
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "tryon",
        run,
        help="lipstick, hair colour, glasses and more, tried on",
        description="Put make-up, hair dye and glasses on every face of pictures and videos.",
        examples=EXAMPLES,
    )
    pictures.add_arguments(parser)
    worn = parser.add_argument_group("what is worn: a colour #rrggbb, or a shade's name")
    for name in EFFECTS:
        proposing(worn.add_argument(_flag(name), dest=name, metavar="SHADE"), shades(name))
    looks = parser.add_argument_group("whole looks")
    looks.add_argument("--look", metavar="LOOK", help="a look's name, a JSON file, or NAME@CHANNEL")
    looks.add_argument("--save-look", metavar="FILE", help="write what is worn as a JSON file")
    looks.add_argument("--shades", action=_Shades, help="list shades and looks, and stop")
    parser.add_argument(
        "--view",
        choices=("after", "before-after", "split"),
        default="after",
        help="what is written (after)",
    )
    flags.add(parser, TryOnOptions, leave_out=("look",))
    flags.add_former(parser, "--face-model", "detector_model")


class _Shades(argparse.Action):
    """Prints shades and looks, as --version prints its text."""

    def __init__(self, option_strings: list[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        for name in EFFECTS:
            print(f"{name.replace('_', '-')}: {', '.join(shades(name))}")
        print(f"look: {', '.join(presets())}")
        parser.exit()


def run(options: argparse.Namespace) -> int:
    """Dress every face of every input."""
    look = _look(options)
    if not look:
        raise UsageError("nothing to wear: give --lipstick, --hair, ... or --look")
    if not options.inputs and options.camera is None and options.save_look is not None:
        look.save(options.save_look)
        return 0
    given = {**flags.chosen(options, TryOnOptions), "look": look}
    opened = opener(KITS["tryon"], given, options.roi)

    def drawn(image: Image, result: TriedOn) -> Image:
        if options.view == "before-after":
            return result.before_after()
        return result.split() if options.view == "split" else result.after

    def described(result: TriedOn, output: Path | None) -> dict[str, Any]:
        return {**result.to_dict(), "picture": None if output is None else os.fspath(output)}

    effect = "--look" if options.look is not None else _flag(_worn(options)[0])
    job = Job(opened, drawn, described, effect=effect)
    pictures.check(options, job)
    if options.save_look is not None:
        look.save(options.save_look)
    return pictures.run(options, job)


def _worn(options: argparse.Namespace) -> list[str]:
    """Return the effects that were given by their own flags."""
    return [name for name in EFFECTS if getattr(options, name) is not None]


def _flag(effect: str) -> str:
    return f"--{effect.replace('_', '-')}"


def _look(options: argparse.Namespace) -> Look:
    from palmkit.kits.tryon.look import Look

    whole = Look() if options.look is None else Look.load(options.look)
    try:
        return whole.adding(**{name: getattr(options, name) for name in _worn(options)})
    except ValueError as error:
        name, _, told = str(error).partition(":")
        raise UsageError(f"{_flag(name)}:{told}") from None
