"""palmkit face: find faces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.face.options import MESH
from palmkit.kits.options import WHAT
from palmkit.kits.table import KITS

if TYPE_CHECKING:
    from palmkit.kits.face.blur import FaceBlur
    from palmkit.kits.image import Image
    from palmkit.kits.results import Faces

EXAMPLES = """\
  palmkit face group.jpg                        count and list the faces
  palmkit face group.jpg -o found.jpg           draw them
  palmkit face group.jpg --json                 {"width": ..., "height": ..., "faces": [...]}
  palmkit face stadium.jpg --tile 640 -o .      also very small faces, in a large photo
  palmkit face photos/ -o found/ --json > faces.jsonl
  palmkit face clip.mp4 -o found.mp4            a video: faces keep their number
  palmkit face --camera                         live, in a window
  palmkit face me.jpg --mesh -o mesh.jpg        478 points on each face, its pose and actions
  palmkit face group.jpg -o shared.jpg --blur   nobody can be recognised
  palmkit face clip.mp4 -o shared.mp4 --pixelate --min-score 0.2
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "face",
        run,
        help="find faces in pictures and videos, or blur them",
        description="Find faces, with eyes, nose tip and mouth corners, in pictures and videos;"
        " with --mesh also 478 points on each, how the head is turned and what the face does;"
        " with --blur make them unrecognisable.",
        examples=EXAMPLES,
    )
    pictures.add_arguments(parser)
    private = parser.add_argument_group(
        "privacy",
        "What -o writes, or a window shows, has all faces and their hair unrecognisable.\n"
        "To find more of them, --min-score is 0.3 and --detect-every 1 then, unless they are\n"
        "given. A face that is not found is not blurred: look at what you share.",
    ).add_mutually_exclusive_group()
    private.add_argument("--blur", action="store_true", help="blur the faces")
    private.add_argument("--pixelate", action="store_true", help="make mosaics of the faces")
    flags.group(parser, WHAT)
    flags.group(parser, MESH).add_argument(
        "--mesh", action="store_true", help="also 478 points, visibility, pose and actions of each"
    )
    flags.add(
        parser,
        KITS["face"].load_options(),
        also=KITS["mesh"].load_options(),
        where="with --mesh",
    )


def run(options: argparse.Namespace) -> int:
    """Find the faces in every input."""
    entry = KITS["mesh" if options.mesh else "face"]
    if not options.mesh:
        flags.only_with("--mesh", options, KITS["mesh"].load_options(), entry.load_options())
    given = flags.chosen(options, entry.load_options())
    if not (options.blur or options.pixelate):
        return pictures.run(options, Job(opener(entry, given, options.roi)))
    effect = "--pixelate" if options.pixelate else "--blur"
    if options.mesh:
        raise UsageError(f"{effect}: expected without --mesh")
    from palmkit.kits.face.blur import MIN_SCORE

    given = {"min_score": MIN_SCORE, "detect_every": 1, **given}
    blurred = _Blurred(opener(entry, given, options.roi), options.pixelate)
    return pictures.run(options, Job(blurred.open, blurred.draw, effect=effect))


class _Blurred:
    """Draws by blurring: pictures each for itself, frames of a video by what was seen before."""

    def __init__(self, find: Callable[[Any], Any], pixelate: bool) -> None:
        self._find, self._pixelate = find, pixelate
        self._blur: FaceBlur | None = None
        self._timestamp_ms: float | None = None

    @contextmanager
    def open(self, mode: str) -> Generator[Callable[[Image, float | None], Faces]]:
        from palmkit.kits.face.blur import FaceBlur

        with self._find(mode) as find:
            # The kit for pictures stays open while videos come and go.
            if mode == "image":
                yield find
                return
            self._blur = FaceBlur(pixelate=self._pixelate)

            def run(frame: Image, timestamp_ms: float | None) -> Faces:
                self._timestamp_ms = timestamp_ms
                found: Faces = find(frame, timestamp_ms)
                return found

            yield run

    def draw(self, image: Image, faces: Faces) -> Image:
        from palmkit.kits.face.blur import blur_faces

        if faces.ids is None or self._blur is None:
            return blur_faces(image, faces, pixelate=self._pixelate)
        return self._blur(image, faces, self._timestamp_ms)
