"""palmkit face: find faces."""

from __future__ import annotations

import argparse

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.face.options import MESH
from palmkit.kits.options import WHAT
from palmkit.kits.table import KITS

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
    return pictures.run(options, Job(opener(entry, given, options.roi)))
