"""palmkit batch: a kit over a folder or Parquet of many rows."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from palmkit.kits.cli import flags
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar
from palmkit.kits.cli.process import complain
from palmkit.kits.table import KITS, of_pictures

DESCRIPTION = """\
Look at many pictures by a kit and write Parquet: a row each with its name, the JSON of the kit's
command, for portrait and hair the mask and for tryon the picture as PNG, or the error. A picture
that fails is listed and does not end the others (exit code 1 then). With several workers by Ray
Data (extra `ray`).
"""
EXAMPLES = """\
  palmkit batch face photos/ -o faces.parquet
  palmkit batch tryon photos/ -o worn.parquet --option look=evening
  palmkit batch hair photos.parquet -o hair.parquet --workers 8      column path or picture
"""
# How many failures are listed before only their number is.
TOLD = 20


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "batch",
        run,
        help="a kit over a folder or Parquet of many pictures",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("kit", choices=of_pictures(), help="the kit: %(choices)s", metavar="KIT")
    parser.add_argument("source", metavar="SOURCE", help="a folder, or Parquet")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the kit's class, such as max_faces=3 or look=evening; may come again",
    )
    add_batch(parser)


def run(options: argparse.Namespace) -> int:
    """Run a batch of pictures."""
    given = flags.read(KITS[options.kit].load_options(), options.option)
    return go(options, options.kit, given)


def add_batch(parser: argparse.ArgumentParser) -> None:
    """Add the options of every batch."""
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="the .parquet to write"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes of Ray (1)")
    parser.add_argument("--rows", type=int, default=64, metavar="N", help="at a time (64)")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def go(options: argparse.Namespace, kit: str, given: dict[str, Any]) -> int:
    """Run a batch."""
    from palmkit.kits import batch

    if Path(options.output).suffix != ".parquet":
        raise UsageError(f"-o: expected a name that ends with .parquet, got {options.output!r}")
    for name in ("workers", "rows"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name}: expected at least 1, got {getattr(options, name)}")
    with progress_bar(None, "row", options.quiet) as bar:

        def report(done: int) -> None:
            bar.n = done
            bar.update(0)

        failures = batch.run(
            kit,
            options.source,
            options.output,
            options=given,
            workers=options.workers,
            rows=options.rows,
            report=report,
        )
    for failure in failures[:TOLD]:
        complain(f"row {failure.row}, {failure.name}: {failure.error}")
    if len(failures) > TOLD:
        complain(f"{len(failures) - TOLD} more rows failed: see the column error")
    return int(bool(failures))
