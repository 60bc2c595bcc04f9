"""palmkit hair: find hair, pixel by pixel."""

from __future__ import annotations

import argparse

from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.portrait import add_mask_arguments, run_segmenter
from palmkit.kits.portrait.options import HairOptions
from palmkit.kits.table import KITS

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
    add_mask_arguments(parser, HairOptions)


def run(options: argparse.Namespace) -> int:
    """Find the hair in every input."""
    return run_segmenter(options, KITS["hair"])
