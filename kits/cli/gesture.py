"""palmkit gesture: find hands and say what they show."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from palmkit.kits.cli import pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar
from palmkit.kits.cli.inputs import gather
from palmkit.kits.cli.process import complain

if TYPE_CHECKING:
    from palmkit.kits.hands.kit import GestureRecognizer
    from palmkit.kits.image import Image
    from palmkit.kits.results import Hand, Hands

EXAMPLES = """\
  palmkit gesture me.jpg                        list the hands and their gestures
  palmkit gesture me.jpg -o hands.jpg           draw them
  palmkit gesture me.jpg --json                 {"width": ..., "height": ..., "hands": [...]}
  palmkit gesture clip.mp4 -o hands.mp4         a video: hands keep their number
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
    find = parser.add_argument_group("what to find")
    find.add_argument("--max-hands", type=int, metavar="N", help="keep the best N (all)")
    find.add_argument(
        "--min-score",
        type=float,
        metavar="S",
        help="0..1, of the detector; less finds more (the model's own)",
    )
    find.add_argument(
        "--min-presence",
        type=float,
        metavar="S",
        help="0..1, how certain the points must be to lie on a hand (the model's own)",
    )
    find.add_argument(
        "--size",
        type=int,
        metavar="P",
        help="longest side that the detector sees; more finds smaller hands, slower (224)",
    )
    find.add_argument(
        "--no-second-look",
        dest="second_look",
        action="store_false",
        help="no second look at the hands of a picture: faster, less exact",
    )
    find.add_argument("--detector", metavar="FILE", help="another detector (the one shipped)")
    own = parser.add_argument_group("own gestures")
    own.add_argument("--gestures", metavar="FILE", help="recognise those of this file as well")
    own.add_argument(
        "--learn",
        metavar="NAME",
        help="each picture's largest hand shows NAME: write it, with those of --gestures, to -o",
    )
    video = parser.add_argument_group("videos")
    video.add_argument(
        "--detect-every",
        type=int,
        metavar="N",
        help="look for new hands every N frames, between only follow each hand (20)",
    )
    video.add_argument(
        "--hold-ms", type=float, metavar="T", help="a gesture counts once held so long (100)"
    )
    video.add_argument(
        "--no-smoothing", dest="smoothing", action="store_false", help="points as found"
    )
    pictures.add_kit_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Find the hands in every input, or learn from them."""
    from palmkit.kits import draw
    from palmkit.kits.hands.kit import GestureRecognizer
    from palmkit.kits.kit import Mode

    shared = ("threads", "precision", "smoothing", "second_look")
    chosen = {name: getattr(options, name) for name in shared}
    names = ("max_hands", "min_score", "min_presence", "size", "detect_every", "hold_ms")
    for name in (*names, "model", "detector"):
        if getattr(options, name) is not None:
            chosen[name] = getattr(options, name)

    def made(mode: Mode, gestures: str | None) -> GestureRecognizer:
        try:
            return GestureRecognizer(mode, **chosen, gestures=gestures)
        except ValueError as error:
            raise UsageError(str(error)) from error

    if options.learn is not None:
        return _learn(options, made("image", None))

    @contextmanager
    def opened(mode: Mode) -> Generator[Callable[[Image, float | None], Hands]]:
        with made(mode, options.gestures) as kit:
            yield lambda image, timestamp_ms: kit.recognize(image, timestamp_ms, roi=options.roi)

    job = pictures.Job(opened, draw.hands, lambda hands, _: hands.to_dict(), _count, _list)
    return pictures.run(options, job)


def _learn(options: argparse.Namespace, recognizer: GestureRecognizer) -> int:
    """Write a gesture file; all pictures must show a hand."""
    from palmkit.engine.errors import ImageError
    from palmkit.kits.hands.gestures import GestureSet
    from palmkit.kits.image import read_image

    if options.output is None or Path(options.output).suffix.lower() != ".json":
        raise UsageError("--learn: expected -o FILE.json, where the gestures go")
    if options.json:
        raise UsageError("--learn: expected without --json")
    inputs, errors = gather(options.inputs)
    errors += [f"expected a picture, not a video: {each.name}" for each in inputs if each.is_video]
    gestures = GestureSet.load(options.gestures) if options.gestures else GestureSet()
    found: list[Hand] = []
    with progress_bar(len(inputs), "file") as bar:
        for each in (each for each in inputs if not each.is_video):
            bar.update()
            try:
                image = read_image(
                    each.name,
                    rotation=options.rotation,
                    flip=options.flip,
                    max_pixels=options.max_pixels,
                )
                hands = recognizer.recognize(image, roi=options.roi)
            except ImageError as error:
                errors.append(str(error) if each.name in str(error) else f"{each.name}: {error}")
                continue
            if not len(hands):
                errors.append(f"shows no hand: {each.name}")
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


def _count(hands: Hands) -> str:
    return f"{len(hands) or 'no'} hand{'' if len(hands) == 1 else 's'}"


def _list(hands: Hands) -> list[str]:
    return [_words(hand) for hand in hands]


def _words(hand: Hand) -> str:
    x, y, width, height = hand.box
    return (
        f"{hand.handedness} {hand.gesture} {hand.gesture_score:.2f}"
        f" at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"
    )
