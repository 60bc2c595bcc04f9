"""palmkit face: find faces."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palmkit.kits.cli import pictures
from palmkit.kits.cli.command import Commands, UsageError, add_command

if TYPE_CHECKING:
    from palmkit.kits.image import Image
    from palmkit.kits.results import Face, Faces

EXAMPLES = """\
  palmkit face group.jpg                        count and list the faces
  palmkit face group.jpg -o found.jpg           draw them
  palmkit face group.jpg --json                 {"width": ..., "height": ..., "faces": [...]}
  palmkit face stadium.jpg --tile 640 -o .      also very small faces, in a large photo
  palmkit face photos/ -o found/ --json > faces.jsonl
  palmkit face clip.mp4 -o found.mp4            a video: faces keep their number
  palmkit face me.jpg --mesh -o mesh.jpg        478 points on each face, its pose and actions
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "face",
        run,
        help="find faces in pictures and videos",
        description="Find faces, with eyes, nose tip and mouth corners, in pictures and videos;"
        " with --mesh also 478 points on each, how the head is turned and what the face does.",
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
        metavar="P",
        help="longest side that the detector sees; more finds smaller faces, slower (320,"
        " closer at what may be a small face, 640 where there are many)",
    )
    find.add_argument(
        "--tile", type=int, metavar="P", help="also look at overlapping squares of this side"
    )
    mesh = parser.add_argument_group("mesh")
    mesh.add_argument(
        "--mesh", action="store_true", help="also 478 points, visibility, pose and actions of each"
    )
    mesh.add_argument(
        "--min-presence",
        type=float,
        metavar="S",
        help="0..1, how certain a mesh must be to lie on a face (the model's own)",
    )
    mesh.add_argument(
        "--focal-length",
        type=float,
        metavar="P",
        help="of the camera, in pixels, for the pose (unknown: pose beside a look into the camera)",
    )
    mesh.add_argument(
        "--no-second-look",
        dest="second_look",
        action="store_const",
        const=False,
        help="no second look at the faces of a picture: faster, less exact",
    )
    mesh.add_argument("--detector", metavar="FILE", help="another detector (the one shipped)")
    video = parser.add_argument_group("videos")
    video.add_argument(
        "--detect-every",
        type=int,
        metavar="N",
        help="look at the whole frame every N frames, between only around each face (10;"
        " with --mesh 20)",
    )
    video.add_argument(
        "--no-smoothing", dest="smoothing", action="store_false", help="boxes as found"
    )
    pictures.add_kit_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Find the faces in every input."""
    from palmkit.kits import draw
    from palmkit.kits.face.kit import FaceDetector
    from palmkit.kits.face.mesh_kit import FaceMesh
    from palmkit.kits.kit import Mode

    shared = ("threads", "precision", "max_faces", "min_score", "min_face", "tile", "smoothing")
    given = ["size", "detect_every", "model"]
    only_mesh = ["min_presence", "focal_length", "second_look", "detector"]
    if not options.mesh:
        for name in only_mesh:
            if getattr(options, name) is not None:
                flag = "no-second-look" if name == "second_look" else name.replace("_", "-")
                raise UsageError(f"--{flag}: expected with --mesh")
    chosen = {name: getattr(options, name) for name in shared}
    for name in given + only_mesh:
        if getattr(options, name) is not None:
            chosen[name] = getattr(options, name)

    @contextmanager
    def opened(mode: Mode) -> Generator[Callable[[Image, float | None], Faces]]:
        kit = FaceMesh(mode, **chosen) if options.mesh else FaceDetector(mode, **chosen)
        with kit:
            yield lambda image, timestamp_ms: kit.detect(image, timestamp_ms, roi=options.roi)

    drawn = draw.mesh if options.mesh else draw.faces
    job = pictures.Job(opened, drawn, lambda faces, _: faces.to_dict(), _count, _list)
    return pictures.run(options, job)


def _count(faces: Faces) -> str:
    return f"{len(faces) or 'no'} face{'' if len(faces) == 1 else 's'}"


def _list(faces: Faces) -> list[str]:
    return [_words(face) for face in faces]


def _words(face: Face) -> str:
    from palmkit.kits.results import ACTIONS

    x, y, width, height = face.box
    words = f"{face.score:.2f} at {x:.0f},{y:.0f} size {width:.0f}x{height:.0f}"
    if face.pose is not None:
        yaw, pitch, roll = face.pose
        words += f" yaw {yaw:.0f} pitch {pitch:.0f} roll {roll:.0f}"
    if face.actions is not None:
        words += "".join(
            f" {name}" for name, done in zip(ACTIONS, face.actions, strict=True) if done
        )
    return words
