"""palmkit hair: find hair, pixel by pixel."""

from __future__ import annotations

import argparse

from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.portrait import add_mask_arguments, run_segmenter

EXAMPLES = """\
  palmkit hair me.jpg                        how much of the picture is hair
  palmkit hair me.jpg -o mask.png            the mask: white is hair
  palmkit hair me.jpg -o hair.png --background transparent
  palmkit hair photos/ -o masks/ --json > hair.jsonl
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "hair",
        run,
        help="find hair pixel by pixel",
        description="Find hair in pictures and videos, pixel by pixel, round each face.",
        examples=EXAMPLES,
    )
    add_mask_arguments(parser)
    faces = parser.add_argument_group("faces")
    faces.add_argument(
        "--max-faces", type=int, metavar="N", help="look only round the best N (all)"
    )
    faces.add_argument(
        "--face-model", metavar="FILE", help="another face detector (the one shipped)"
    )


def run(options: argparse.Namespace) -> int:
    """Find the hair in every input."""
    from palmkit.kits.portrait.hair import HairSegmenter

    more = {"max_faces": options.max_faces, "face_model": options.face_model}
    return run_segmenter(options, HairSegmenter, more)
