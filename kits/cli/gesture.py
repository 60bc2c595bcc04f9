"""palmkit gesture: find hands and say what they show."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar
from palmkit.kits.cli.inputs import gather, named
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.cli.process import complain
from palmkit.kits.hands.options import GestureOptions
from palmkit.kits.table import KITS

if TYPE_CHECKING:
    from palmkit.kits.results import Hand

EXAMPLES = """\
  palmkit gesture me.jpg                        list the hands and their gestures
  palmkit gesture me.jpg -o hands.jpg           draw them
  palmkit gesture me.jpg --json                 {"width": ..., "height": ..., "hands": [...]}
  palmkit gesture clip.mp4 -o hands.mp4         a video: hands keep their number
  palmkit gesture --camera                      live, in a window
  palmkit gesture waving/ --learn wave -o my.json                     a new gesture
  palmkit gesture calls/ --learn call --gestures my.json -o my.json   and one more
  palmkit gesture me.jpg --gestures my.json     know these as well
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "gesture",
        run,
        help="find hands and their gestures in pictures and videos",
        description="Find hands in pictures and videos: 21 points on each, left or right, and"
        " its gesture; or learn new gestures from a few pictures each.",
        examples=EXAMPLES,
    )
    pictures.add_arguments(parser)
    flags.add(parser, GestureOptions)
    parser.add_argument_group("own gestures").add_argument(
        "--learn",
        metavar="NAME",
        help="each picture's largest hand shows NAME: write it, with those of --gestures, to -o",
    )


def run(options: argparse.Namespace) -> int:
    """Find the hands in every input, or learn from them."""
    given = flags.chosen(options, GestureOptions)
    if options.learn is not None:
        return _learn(options, given)
    opened = opener(KITS["gesture"], given, options.roi)
    return pictures.run(options, Job(opened))


def _learn(options: argparse.Namespace, given: dict[str, Any]) -> int:
    """Write a gesture file; all pictures must show a hand."""
    from palmkit.engine.errors import ImageError
    from palmkit.kits.hands.gestures import GestureSet
    from palmkit.kits.hands.kit import GestureRecognizer
    from palmkit.kits.image import read_image

    if options.output is None or Path(options.output).suffix.lower() != ".json":
        raise UsageError("--learn: expected -o FILE.json, where the gestures go")
    if options.json:
        raise UsageError("--learn: expected without --json")
    if options.camera is not None:
        raise UsageError("--learn: expected pictures, not --camera")
    if not options.inputs:
        raise UsageError("--learn: expected pictures that show the gesture")
    inputs, errors = gather(options.inputs)
    errors += [f"expected a picture, not a video: {each.label}" for each in inputs if each.is_video]
    known = given.pop("gestures", None)
    gestures = GestureSet.load(known) if known else GestureSet()
    try:
        recognizer = GestureRecognizer(**given)
    except ValueError as error:
        raise UsageError(str(error)) from error
    found: list[Hand] = []
    with progress_bar(len(inputs), "file") as bar:
        for each in (each for each in inputs if not each.is_video):
            bar.update()
            try:
                image = read_image(
                    each.source(options.max_pixels),
                    rotation=options.rotation,
                    flip=options.flip,
                    max_pixels=options.max_pixels,
                )
                hands = recognizer.recognize(image, roi=options.roi)
            except (ImageError, OSError) as error:
                errors.append(named(each, error))
                continue
            if not len(hands):
                errors.append(f"shows no hand: {each.label}")
                continue
            found.append(max(hands, key=lambda hand: float(hand.box[2:].prod())))
    for message in errors:
        complain(message)
    if errors:
        complain("nothing was learnt: leave these out, or replace them")
        return 1
    try:
        gestures.add(options.learn, found)
    except ValueError as error:
        raise UsageError(f"--learn: {error}") from error
    gestures.save(options.output)
    for name, hands_of in gestures.hands.items():
        print(f"{name}: {len(hands_of)} example{'' if len(hands_of) == 1 else 's'}")
    return 0
