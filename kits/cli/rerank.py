"""palmkit rerank: re-order pages of items by what the user did."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from palmkit.kits.cli import flags
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar
from palmkit.kits.cli.process import complain
from palmkit.kits.ranking.options import RerankerOptions

if TYPE_CHECKING:
    from palmkit.kits.ranking.kit import Reranker
    from palmkit.kits.ranking.schema import Schema
    from palmkit.kits.results import Ranking

DESCRIPTION = """\
Re-order pages of items by what the user did just before. A FILE is a log (.jsonl, .csv, .tsv,
.parquet; also .gz): its events are observed, its pages re-ordered, one result a page. A .json file
is one page: {"items": [...], "history": [...], "context": {...}}.

palmkit rerank train LOG... -o model.palm learns a model from one's own log, palmkit rerank evaluate
LOG says what another policy would have earned; each has a --help.
"""
EXAMPLES = """\
  palmkit rerank page.json                          the ids in their new order
  palmkit rerank page.json --json --why             {"order": [...], "scores": [...], ...}
  palmkit rerank log.jsonl --model my.palm --json   each page of a log, by a model of one's own
  palmkit rerank log.csv.gz --schema schema.json --json -o orders.jsonl
  palmkit rerank log.jsonl --propose                the schema that is proposed for a log
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "rerank",
        run,
        help="re-order pages of items by what the user did",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="a page (.json) or a log")
    flags.add(parser, RerankerOptions, leave_out=("schema", "constraints"))
    add_schema(parser)
    parser.add_argument("--propose", action="store_true", help="print the schema and do no more")
    parser.add_argument("--why", action="store_true", help="also what each score owes to what")
    parser.add_argument("--json", action="store_true", help="one JSON object a page")
    parser.add_argument("-o", "--output", metavar="OUT", help="write there instead of printing")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def add_schema(parser: argparse.ArgumentParser) -> None:
    """The option that says what columns mean."""
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="JSON that says what the columns mean (the model's, or what --propose proposes)",
    )


def run(options: argparse.Namespace) -> int:
    """Re-order the pages; a file that cannot be read does not stop the others."""
    from palmkit.engine.errors import PalmError
    from palmkit.engine.replacing import replacing
    from palmkit.kits.ranking.kit import Reranker
    from palmkit.kits.ranking.schema import Schema

    schema = Schema.load(options.schema) if options.schema else None
    if options.propose:
        for file in options.files:
            print((schema or _proposed(Path(file))).to_json())
        return 0
    failed = False
    given: dict[str, Any] = {**flags.chosen(options, RerankerOptions), "schema": schema}
    try:
        reranker = Reranker(**given)
    except ValueError as error:
        if isinstance(error, PalmError):
            raise
        raise UsageError(str(error)) from None
    target = nullcontext() if options.output is None else replacing(options.output)
    with target as part, progress_bar(None, "page", options.quiet) as bar:
        with nullcontext() if part is None else part.open("w", encoding="utf-8") as out:
            for file in options.files:
                try:
                    for number, found in _pages(Path(file), reranker, given, options.why):
                        _tell(options.json, file, number, found, out)
                        bar.update()
                except (PalmError, OSError, ValueError) as error:
                    complain(error if isinstance(error, OSError) else f"{file}: {error}")
                    failed = True
        if failed and part is not None:
            # What was asked for is not whole.
            part.unlink()
            return 1
    return int(failed)


def _proposed(file: Path) -> Schema:
    from palmkit.kits.ranking.schema import Schema

    if file.suffix != ".json":
        return Schema.infer(file)
    return Schema.infer(_read_page(file)["items"])


def _read_page(file: Path) -> dict[str, Any]:
    from palmkit.engine.errors import TableError
    from palmkit.engine.reading import read_text

    try:
        page = json.loads(read_text(file))
    except (ValueError, RecursionError):
        raise TableError("expected JSON") from None
    if not isinstance(page, dict):
        raise TableError('expected an object with "items"')
    named: dict[str, Any] = {**page}
    if not isinstance(named.get("items"), list):
        raise TableError('expected an object with "items"')
    return named


def _pages(
    file: Path, reranker: Reranker, given: dict[str, Any], why: bool
) -> Iterator[tuple[int, Ranking]]:
    """Yield for each page the number of its first row, and its ranking."""
    from palmkit.kits.ranking.kit import Reranker
    from palmkit.kits.ranking.log import read_pages, read_rows

    if file.suffix == ".json":
        page = _read_page(file)
        found = reranker.rerank(
            page["items"], page.get("history") or (), page.get("context"), why=why
        )
        yield 0, found
        return
    schema = reranker.schema
    if schema is None:
        schema = _proposed(file)
        again: dict[str, Any] = {**given, "model": reranker.source, "schema": schema}
        reranker = Reranker(**again)
    for shown in read_pages(read_rows(file), schema):
        found = reranker.rerank(shown.items, shown.history, shown.context, why=why)
        yield shown.number, found


def _tell(as_json: bool, file: str, row: int, found: Ranking, out: TextIO | None) -> None:
    if as_json:
        print(json.dumps({"file": file, "row": row, **found.to_dict()}), file=out)
        return
    headline, *details = found.words()
    print(f"{file}, row {row}: {headline}", file=out)
    for line in details:
        print(f"  {line}", file=out)
