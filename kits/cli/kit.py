"""The command of a kit without one of its own, derived from the kit's options."""

from __future__ import annotations

import argparse
from functools import partial

from palmkit.kits.cli import flags, pictures
from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.cli.job import Job, opener
from palmkit.kits.table import KITS

EXAMPLES = """\
  palmkit {name} me.jpg                        what is found, in words
  palmkit {name} me.jpg -o found.jpg           drawn
  palmkit {name} photos/ --json > found.jsonl  a JSON object a picture
"""


def add(commands: Commands, name: str) -> None:
    """Describe the command of this kit."""
    entry = KITS[name]
    parser = add_command(
        commands,
        name,
        partial(run, name),
        help=entry.title,
        description=f"{entry.title[:1].upper()}{entry.title[1:]}, in pictures and videos.",
        examples=EXAMPLES.format(name=name),
    )
    pictures.add_arguments(parser)
    flags.add(parser, entry.load_options())


def run(name: str, options: argparse.Namespace) -> int:
    """Run the kit on every input."""
    entry = KITS[name]
    given = flags.chosen(options, entry.load_options())
    return pictures.run(options, Job(opener(entry, given, options.roi)))
