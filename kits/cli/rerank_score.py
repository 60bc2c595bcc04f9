"""palmkit rerank score: a re-ranker over Parquet of many pages."""

from __future__ import annotations

import argparse

from palmkit.kits.cli import batch, flags, rerank
from palmkit.kits.cli.command import Commands, add_command
from palmkit.kits.ranking.options import RerankerOptions

DESCRIPTION = """\
Re-order the pages of a Parquet file, or of a folder of them: a row a page, with the columns items
(a list of structs, or JSON), and, if there are, history, context and id. OUT has a row each: its
number, its id, the result ({"order": [...], "scores": [...], ...}) or the error. A page that fails
is listed and does not end the others (exit code 1 then). With several workers by Ray Data: pip
install "palmkit[ray]".
"""
EXAMPLES = """\
  palmkit rerank score pages.parquet -o orders.parquet --model my.palm
  palmkit rerank score pages/ -o orders.parquet --schema schema.json --workers 8
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "rerank score",
        run,
        help="re-order many pages in Parquet",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("source", metavar="IN", help="Parquet, or a folder of it")
    flags.add(parser, RerankerOptions, leave_out=("schema", "constraints"))
    rerank.add_schema(parser)
    batch.add_batch(parser)


def run(options: argparse.Namespace) -> int:
    """Score the pages."""
    from palmkit.kits.ranking.schema import Schema

    schema = Schema.load(options.schema) if options.schema else None
    given = {**flags.chosen(options, RerankerOptions), "schema": schema}
    return batch.go(options, "rerank", given)
