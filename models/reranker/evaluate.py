"""Measure how a model orders the pages of a log, beside simple rules, by kind of page.

`python -m palmkit.models.reranker.evaluate LOG OUT` encodes the pages of a log on which something
was chosen, scores the last tenth by the beginning of their sessions, which
`palmkit rerank train` reports on, and writes OUT/metrics.json. Of each page 1 over the place of the
first chosen item, 1 at best, counts for the mean (MRR), the worst tenth and the share of failures,
by length of the page, number of chosen items and of events before it (palmkit.models.kinds): a page
failed on which nothing chosen is among the first two. Rules that know of no place in the server's
order keep it among equals.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from palmkit.engine import load
from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.log import read_rows
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.scorer import Scorer
from palmkit.models import kinds
from palmkit.models.reranker.baselines import rules
from palmkit.models.reranker.dataset import Example, Lists, write_lists
from palmkit.models.reranker.measures import reciprocal_rank
from palmkit.models.reranker.train import split

MODEL = Path(__file__).with_name("reranker.palm")
# Steps in items of a page, in chosen ones, and in events before the page.
LENGTHS, CHOSEN, EVENTS = (1, 10, 20, 30, 40), (1, 2, 4), (0, 1, 3, 11, 51)
# What numbers were chosen on, as cards and metrics.json say.
CHOSEN_ON = "the pages before the test pages; these decided nothing"


def kinds_of(page: Example) -> list[str]:
    """Return the kinds of a page: its length, how many items were chosen, events before it."""
    return [
        kinds.between(len(page.labels), LENGTHS, "items"),
        kinds.between(int((page.labels > 0).sum()), CHOSEN, "chosen"),
        # The first event of the inputs stands for none.
        kinds.between(len(page.inputs.events) - 1, EVENTS, "events"),
    ]


def measure(
    pages: Lists, rows: NDArray[np.int64], scorer: Scorer
) -> dict[str, dict[str, kinds.Spread]]:
    """Return how the chosen pages came out, by method and kind."""
    layout = scorer.description.layout
    ways = {"palmkit": lambda page: scorer.score(page.inputs, layout.length), **rules(layout)}
    tallies = {name: kinds.Tally() for name in ways}
    for row in tqdm(rows, mininterval=5):
        page: Example = pages[int(row)]
        for name, way in ways.items():
            tallies[name].add(kinds_of(page), reciprocal_rank(way(page), page.labels))
    return {name: tally.spreads() for name, tally in tallies.items()}


def evaluate(log: Path, model: Path, schema: Schema) -> dict[str, dict[str, kinds.Spread]]:
    """Return how the last tenth of a log's pages came out, by method and kind.

    Raises TableError naming the row for what cannot be read, or if no page has a choice; ValueError
    if the model was trained on another schema.
    """
    scorer = Scorer(load(model))
    description = scorer.description
    layout = description.fitted(schema)
    assert layout is not None
    scorer.description = replace(description, layout=layout)
    names = (*schema.categories, *schema.context)
    vocabulary = description.vocabulary or [{} for _ in names]
    with tempfile.TemporaryDirectory() as folder:
        pages = write_lists(Path(folder), read_rows(log), layout, vocabulary)
        return measure(pages, split(pages.starts).test, scorer)


def main(arguments: Sequence[str] | Iterable[str] | None = None) -> None:
    """Run the command line."""
    from palmkit.models.reranker.simulator import SCHEMA

    parser = argparse.ArgumentParser(description="measure how a model orders the pages of a log")
    parser.add_argument("log", type=Path, help="a log, as of palmkit.models.reranker.simulator")
    parser.add_argument("out", type=Path, help="folder that takes metrics.json")
    parser.add_argument("--model", type=Path, default=MODEL, help="default: the one that ships")
    parser.add_argument("--schema", type=Path, help="default: that of the simulator")
    options = parser.parse_args(None if arguments is None else list(arguments))
    schema = Schema.load(options.schema) if options.schema else SCHEMA
    found = evaluate(options.log, options.model, schema)
    print(*kinds.lines(found, "1 / place"), f"chosen on: {CHOSEN_ON}", sep="\n")
    told: dict[str, Any] = {name: kinds.rounded(each) for name, each in found.items()}
    options.out.mkdir(parents=True, exist_ok=True)
    with replacing(options.out / "metrics.json") as part:
        said = {"pictures": told, "chosen_on": CHOSEN_ON}
        part.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
