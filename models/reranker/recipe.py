"""The work of `palmkit rerank train`: it makes a model and a report of logs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.features import Layout, Scope
from palmkit.kits.ranking.log import Row, read_rows
from palmkit.kits.ranking.schema import Schema
from palmkit.models.reranker.baselines import Trees, rules
from palmkit.models.reranker.dataset import Lists, learn_vocabulary, write_lists
from palmkit.models.reranker.export import export
from palmkit.models.reranker.measures import measure, shuffled
from palmkit.models.reranker.report import write_report
from palmkit.models.reranker.train import Parts, Progress, Recipe, score, split, train

NETWORK, TREES = "the network", "LightGBM, LambdaMART"
# Pages by how many events came before them: from, up to.
EVENTS = ((0, 0), (1, 2), (3, 10), (11, 50), (51, 10_000))
Report = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Job:
    """A training to do; see `palmkit rerank train --help`."""

    logs: tuple[Path, ...]
    schema: Schema
    out: Path
    report: Path | None = None
    metrics: Path | None = None
    scope: Scope = "own"
    with_position: bool = True
    length: int = 100
    trees: bool = True
    name: str = "reranker"
    version: str = "1.0"
    recipe: Recipe = Recipe()


def read_logs(logs: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of logs, one after the other."""
    for log in logs:
        yield from read_rows(log)


def run(job: Job, report: Report = lambda step, done, all: None) -> dict[str, dict[str, float]]:
    """Train, measure on the last tenth of the sessions, write the model and the report.

    report: is told of each step: its name, how much is done, of how much if that is known.
    Returns the measures of each method on the test pages.
    Raises TableError naming the row for what cannot be read, or with fewer than 20 pages.
    """
    import torch

    torch.set_num_threads(1)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        vocabulary: list[dict[str, int]] = []
        if job.scope == "own":
            counted = _counted(read_logs(job.logs), "reading", report)
            vocabulary = learn_vocabulary(counted, job.schema)
        layout = Layout(job.schema, job.scope, job.with_position, job.length)
        words = vocabulary or [{}] * (len(job.schema.categories) + len(job.schema.context))
        counted = _counted(read_logs(job.logs), "encoding", report)
        lists = write_lists(folder, counted, layout, words)
        if len(lists) < 20:
            from palmkit.engine.errors import TableError

            raise TableError(f"log: expected 20 pages with a choice or more, got {len(lists)}")
        parts = split(lists.starts)
        trained = train(
            lists,
            parts,
            sum(len(each) for each in vocabulary),
            job.recipe,
            lambda step, steps: report("training", step, steps),
        )
        scores: dict[str, list[NDArray[Any]]] = {
            NETWORK: list(score(trained.network, lists, parts.test, trained.scaling)),
            **baselines(lists, parts, layout, job.trees, job.recipe.seed),
        }
        labels = [lists[int(row)].labels for row in parts.test]
        measures = {name: tell(each, labels, layout) for name, each in scores.items()}
        said = {"metrics": json.dumps(measures, sort_keys=True)}
        export(
            trained.network,
            trained.scaling,
            layout,
            vocabulary,
            job.out,
            said,
            job.name,
            job.version,
        )
        if job.metrics is not None:
            with replacing(job.metrics) as part:
                part.write_text(json.dumps(measures, indent=1) + "\n")
        if job.report is not None:
            _write(job, lists, parts, scores, measures, trained.progress)
    return measures


def baselines(
    lists: Lists, parts: Parts, layout: Layout, trees: bool, seed: int
) -> dict[str, list[NDArray[Any]]]:
    """Return the scores of the trees, where LightGBM is installed, and of the rules."""
    found: dict[str, list[NDArray[Any]]] = {}
    if trees:
        try:
            made = Trees(lists, parts.train, parts.held_out, seed)
            found[TREES] = list(made.score(lists, parts.test))
        except UnsupportedError:
            pass
    for name, rule in rules(layout).items():
        found[name] = [rule(lists[int(row)]) for row in parts.test]
    return found


def tell(
    scores: list[NDArray[Any]], labels: list[NDArray[np.float32]], layout: Layout
) -> dict[str, float]:
    """Return the measures; pages are shuffled where the server's order must not show."""
    if layout.with_position:
        return measure(scores, labels)
    return measure(*shuffled(scores, labels, 0))


def _counted(rows: Iterator[Row], step: str, report: Report) -> Iterator[Row]:
    for number, row in enumerate(rows, 1):
        if number % 1000 == 0:
            report(step, number, None)
        yield row


def _write(
    job: Job,
    lists: Lists,
    parts: Parts,
    scores: dict[str, list[NDArray[Any]]],
    measures: dict[str, dict[str, float]],
    progress: Progress,
) -> None:
    events = lists.lengths[parts.test] - 1
    by_events: dict[str, list[tuple[str, float]]] = {}
    for name in list(scores)[:4]:
        for low, high in EVENTS:
            rows = np.flatnonzero((events >= low) & (events <= high))
            if not len(rows):
                continue
            labels = [lists[int(parts.test[row])].labels for row in rows]
            found = measure([scores[name][row] for row in rows], labels)
            label = str(low) if low == high else f"{low} to {min(high, job.length)}"
            by_events.setdefault(name, []).append((label, found["mrr"]))
    facts = {
        "logs": ", ".join(str(log) for log in job.logs),
        "model": str(job.out),
        "pages to learn from / to stop by / to report on": " / ".join(map(str, map(len, parts))),
        "features": job.scope + ("" if job.with_position else ", without position and score"),
        "epochs": len(progress.losses),
        **asdict(job.recipe),
    }
    assert job.report is not None
    write_report(job.report, f"Re-ranker {job.name}", facts, measures, by_events, progress)
