"""palmkit face: find faces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palmkit.kits.cli import pictures
from palmkit.kits.cli.command import Commands, add_command

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.results import Faces

EXAMPLES = """\
  palmkit face group.jpg                        count and list the faces
  palmkit face group.jpg -o found.jpg           draw them
  palmkit face group.jpg --json                 {"width": ..., "height": ..., "faces": [...]}
  palmkit face stadium.jpg --tile 640 -o .      also very small faces, in a large photo
  palmkit face photos/ -o found/ --json > faces.jsonl
  palmkit face clip.mp4 -o found.mp4            a video: faces keep their number
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "face",
        run,
        help="find faces in pictures and videos",
        description="Find faces, with eyes, nose tip and mouth corners, in pictures and videos.",
        examples=EXAMPLES,
    )
    pictures.add_arguments(parser)
    find = parser.add_argument_group("what to find")
    find.add_argument(
        "--min-score", type=float, metavar="S", help="0..1; less finds more (the model's own)"
    )
    find.add_argument("--max-faces", type=int, metavar="N", help="keep the best N (all)")
    find.add_argument(
        "--min-face",
        type=float,
        default=0,
        metavar="P",
        help="leave out smaller ones: pixels, or less than 1 a fraction of the shorter side (0)",
    )
    find.add_argument(
        "--size",
        type=int,
        default=640,
        metavar="P",
        help="longest side that the network sees; more finds smaller faces, slower (640)",
    )
    find.add_argument(
        "--tile", type=int, metavar="P", help="also look at overlapping squares of this side"
    )
    video = parser.add_argument_group("videos")
    video.add_argument(
        "--detect-every",
        type=int,
        default=10,
        metavar="N",
        help="look at the whole frame every N frames, between only around each face (10)",
    )
    video.add_argument(
        "--no-smoothing", dest="smoothing", action="store_false", help="boxes as found"
    )
    pictures.add_kit_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Find the faces in every input."""
    from palmkit.kits import draw
    from palmkit.kits.face.kit import FaceDetector
    from palmkit.kits.kit import Mode

    @contextmanager
    def opened(mode: Mode) -> Generator[Callable[[Image, float | None], Faces]]:
        with FaceDetector(
            mode,
            threads=options.threads,
            precision=options.precision,
            max_faces=options.max_faces,
            min_score=options.min_score,
            min_face=options.min_face,
            size=options.size,
            tile=options.tile,
            detect_every=options.detect_every,
            smoothing=options.smoothing,
            model=options.model,
        ) as detector:
            yield lambda image, timestamp_ms: detector.detect(image, timestamp_ms, roi=options.roi)

    job = pictures.Job(opened, draw.faces, lambda faces, _: faces.to_dict(), _count, _list)
    return pictures.run(options, job)


def _count(faces: Faces) -> str:
    return f"{len(faces) or 'no'} face{'' if len(faces) == 1 else 's'}"


def _list(faces: Faces) -> list[str]:
    return [
        f"{face.score:.2f} at {face.box[0]:.0f},{face.box[1]:.0f}"
        f" size {face.box[2]:.0f}x{face.box[3]:.0f}"
        for face in faces
    ]
