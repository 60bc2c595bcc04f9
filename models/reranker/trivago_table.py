"""The table of the model card: the network, trees and rules on the lists of trivago.

`python -m palmkit.models.reranker.trivago_table SESSIONS.csv.gz OUT.json` trains both for each
seed, with and without the position feature, on two splits: the file's own (dev: the last 15 % of
its sessions) and the last 30 % by beginning. Measuring only: no weights are written. Each part may
run alone: --split, --seeds, --position, --only; results are added to OUT.json. With --whole both
learn from all training sessions, for as many rounds and epochs as cross-validation in them chose,
and nothing stops them earlier.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.log import Row, read_pages
from palmkit.models.reranker.baselines import rules
from palmkit.models.reranker.dataset import Lists, learn_vocabulary, write_lists
from palmkit.models.reranker.recipe import NETWORK, TREES, tell
from palmkit.models.reranker.train import Parts, Recipe, score, train
from palmkit.models.reranker.trees import Trees
from palmkit.models.reranker.trivago import OF_PLACES, SCHEMA, rows

SPLITS = ("dev", "last 30 %")
RECIPE = Recipe(epochs=6, patience=6, learning_rate=1.5e-3, members=1)


def divide(lists: Lists, named: list[str], which: str, whole: bool = False) -> Parts:
    """Return rows to train on, the last tenth of them to stop by, and to test on; by start.

    whole: whether there are none to stop by.
    """
    order = np.argsort(lists.starts, kind="stable")
    if which == "dev":
        is_test = np.array([each == "dev" for each in named])[order]
        known, test = order[~is_test], order[is_test]
    else:
        # Sessions that began together stay together.
        first = np.quantile(np.unique(lists.starts), 0.7)
        known, test = order[lists.starts[order] < first], order[lists.starts[order] >= first]
    stop = len(known) if whole else int(0.9 * len(known))
    return Parts(known[:stop], known[stop:], test)


def layout_of(with_position: bool) -> Layout:
    """Return the layout; without position also without features from places in other lists."""
    if with_position:
        return Layout(SCHEMA)
    numbers = tuple(name for name in SCHEMA.numbers if name not in OF_PLACES)
    return Layout(replace(SCHEMA, numbers=numbers), with_position=False)


def measure_split(
    raw: list[Row],
    which: str,
    with_position: bool,
    seeds: Iterable[int],
    only: str | None,
    whole: bool = False,
) -> dict[str, list[dict[str, float]]]:
    """Return the measures of each method, one a seed; rules have one."""
    layout = layout_of(with_position)
    shown = [page for page in read_pages(raw, layout.schema) if any(page.labels)]
    named = [str(raw[page.number]["split"]) for page in shown]
    # Words that occur only in test rows are not known.
    starts = sorted({page.start for page in shown})
    last = float("inf") if which == "dev" else starts[int(0.7 * len(starts))]
    known = [r for r in raw if (r["split"] == "train" if which == "dev" else r["time"] < last)]
    vocabulary = learn_vocabulary(known, layout.schema)
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        lists = write_lists(Path(folder), raw, layout, vocabulary)
        parts = divide(lists, named, which, whole)
        labels = [lists[int(row)].labels for row in parts.test]
        if only is None:
            for name, rule in rules(layout).items():
                scores = [rule(lists[int(row)]) for row in parts.test]
                found[name] = [tell(list(scores), labels, layout)]
        for seed in seeds:
            if only in (None, "trees"):
                trees = Trees(lists, parts.train, parts.held_out, seed)
                scores = trees.score(lists, parts.test)
                found.setdefault(TREES, []).append(tell(list(scores), labels, layout))
            if only in (None, "network"):
                words = sum(len(each) for each in vocabulary)
                made = train(lists, parts, words, replace(RECIPE, seed=seed))
                scores = score(made.network, lists, parts.test, made.scaling)
                found.setdefault(NETWORK, []).append(tell(list(scores), labels, layout))
    return found


def table(found: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Return Markdown with mean MRR and NDCG@10 and their standard deviation over seeds."""
    lines = ["| | " + " | ".join(found) + " |", "|---" * (1 + len(found)) + "|"]
    names = dict.fromkeys(name for methods in found.values() for name in methods)
    for name in names:
        cells: list[str] = []
        for methods in found.values():
            runs = methods.get(name, [])
            parts: list[str] = []
            for key in ("mrr", "ndcg10"):
                values = [each[key] for each in runs]
                spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
                parts.append(f"{statistics.mean(values):.4f}{spread}" if values else "")
            cells.append(" / ".join(filter(None, parts)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="network, trees and rules on trivago's lists")
    parser.add_argument("sessions", type=Path)
    parser.add_argument("out", type=Path, help="results, added to those that are there")
    parser.add_argument("--split", choices=SPLITS, action="append")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2, 3, 4])
    parser.add_argument("--position", choices=("with", "without"), action="append")
    parser.add_argument("--only", choices=("network", "trees"))
    parser.add_argument("--whole", action="store_true", help="learn from all, stop by nothing")
    options = parser.parse_args(None if arguments is None else list(arguments))
    import torch

    torch.set_num_threads(1)
    raw = list(rows(options.sessions))
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for which in options.split or SPLITS:
        for position in options.position or ("with", "without"):
            named = f"{which}, {position} position" + (", whole" if options.whole else "")
            here = found.setdefault(named, {})
            each = measure_split(
                raw, which, position == "with", options.seeds, options.only, options.whole
            )
            for name, runs in each.items():
                here[name] = runs if len(runs) < 2 and name not in (NETWORK, TREES) else [
                    *here.get(name, []), *runs
                ]  # fmt: skip
            with replacing(options.out) as part:
                part.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))


if __name__ == "__main__":
    main()
