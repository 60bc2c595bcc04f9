"""palmkit gesture: find hands and what they show."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palmkit.kits.cli import pictures
from palmkit.kits.cli.command import Commands, add_command

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.kit import Mode
    from palmkit.kits.results import Hands

EXAMPLES = """\
  palmkit gesture me.jpg                     which hands there are and what they show
  palmkit gesture me.jpg -o found.jpg        draw them
  palmkit gesture me.jpg --json              {"width": ..., "height": ..., "hands": [...]}
  palmkit gesture clip.mp4 -o found.mp4      a video: hands keep their number
  palmkit gesture me.jpg --gestures mine.json  also one's own, of palmkit.kits.gestures.save
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "gesture",
        run,
        help="find hands and what they show",
        description="Find hands, with 21 landmarks each, left or right, and what they show: fist,"
        " open_palm, one, two, three, four, ok, thumb_up, thumb_down, finger_heart, other.",
        examples=EXAMPLES,
    )
    pictures.add_arguments(parser)
    find = parser.add_argument_group("what to find")
    find.add_argument("--max-hands", type=int, metavar="N", help="look at no more (all)")
    find.add_argument(
        "--min-score", type=float, metavar="S", help="0..1; less looks at more (the model's own)"
    )
    find.add_argument(
        "--min-presence",
        type=float,
        metavar="S",
        help="0..1; how certain it must be that it is a hand (the model's own)",
    )
    find.add_argument(
        "--size",
        type=int,
        default=224,
        metavar="P",
        help="longest side that the detector sees; more finds smaller hands, slower (224)",
    )
    find.add_argument("--gestures", metavar="FILE", help="one's own gestures")
    video = parser.add_argument_group("videos")
    video.add_argument(
        "--detect-every",
        type=int,
        default=20,
        metavar="N",
        help="look for new hands every N frames, between only follow those known (20)",
    )
    video.add_argument(
        "--no-smoothing", dest="smoothing", action="store_false", help="hands as found"
    )
    pictures.add_kit_arguments(parser)
    parser.add_argument(
        "--detector", metavar="FILE", help="another hand detector (the one shipped)"
    )


def run(options: argparse.Namespace) -> int:
    """Find the hands in every input."""
    from palmkit.kits import draw, gestures
    from palmkit.kits.hands.kit import GestureRecognizer

    own = [] if options.gestures is None else gestures.load(options.gestures)

    @contextmanager
    def opened(mode: Mode) -> Generator[Callable[[Image, float | None], Hands]]:
        with GestureRecognizer(
            mode,
            threads=options.threads,
            precision=options.precision,
            max_hands=options.max_hands,
            min_score=options.min_score,
            min_presence=options.min_presence,
            size=options.size,
            gestures=own,
            detect_every=options.detect_every,
            smoothing=options.smoothing,
            model=options.model,
            detector=options.detector,
        ) as recognizer:
            yield lambda image, timestamp_ms: recognizer.recognize(
                image, timestamp_ms, roi=options.roi
            )

    job = pictures.Job(opened, draw.hands, lambda hands, _: hands.to_dict(), _count, _list)
    return pictures.run(options, job)


def _count(hands: Hands) -> str:
    return f"{len(hands) or 'no'} hand{'' if len(hands) == 1 else 's'}"


def _list(hands: Hands) -> list[str]:
    return [
        f"{hand.score:.2f} {hand.handedness} {hand.gesture} {hand.gesture_score:.2f}"
        f" at {hand.box[0]:.0f},{hand.box[1]:.0f} size {hand.box[2]:.0f}x{hand.box[3]:.0f}"
        for hand in hands
    ]
