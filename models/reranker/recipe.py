"""The work of `palmkit rerank train`: it makes a model and a report of logs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import UnsupportedError
from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.features import Layout, Scope
from palmkit.kits.ranking.log import Row, read_rows
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.scorer import Description
from palmkit.models.reranker.baselines import rules
from palmkit.models.reranker.dataset import Lists, learn_vocabulary, write_lists
from palmkit.models.reranker.measures import measure, shuffled
from palmkit.models.reranker.report import write_report
from palmkit.models.reranker.train import (
    Parts,
    Progress,
    Recipe,
    Trained,
    score,
    split,
    train,
)
from palmkit.models.reranker.trees import Trees
from palmkit.models.reranker.trees import export as write_trees

NETWORK, TREES = "the network", "LightGBM, LambdaMART"
# Pages by how many events came before them: from, up to.
EVENTS = ((0, 0), (1, 2), (3, 10), (11, 50), (51, 10_000))
Report = Callable[[str, int, int | None], None]
Keep: TypeAlias = Literal["better", "network", "trees"]


@dataclass(frozen=True)
class Job:
    """A training to do; see `palmkit rerank train --help`.

    keep: which model to write. trees: whether trees are trained at all.
    """

    logs: tuple[Path, ...]
    schema: Schema
    out: Path
    report: Path | None = None
    metrics: Path | None = None
    scope: Scope = "own"
    with_position: bool = True
    length: int = 100
    keep: Keep = "better"
    trees: bool = True
    name: str = "reranker"
    version: str = "1.0"
    recipe: Recipe = Recipe()


class Kept(NamedTuple):
    """Which model was written: its name among the measures, and why.

    held_out: NDCG@10 of each model that was trained, on the pages that decided when to stop.
    """

    name: str
    held_out: dict[str, float]

    def __str__(self) -> str:
        """Return it as a report says it."""
        told = "; ".join(f"{name} {value:.4f}" for name, value in self.held_out.items())
        return f"{self.name} (NDCG@10 on the held-out pages: {told})"


class Done(NamedTuple):
    """What a job came to: the measures of each method on the test pages, and the model written."""

    measures: dict[str, dict[str, float]]
    kept: Kept


def read_logs(logs: Sequence[Path]) -> Iterator[Row]:
    """Yield the rows of logs, one after the other."""
    for log in logs:
        yield from read_rows(log)


def run(job: Job, report: Report = lambda step, done, all: None) -> Done:
    """Train, measure on the last tenth of the sessions, write the better model and the report.

    report: is told of each step: its name, how much is done, of how much if that is known.
    Raises TableError naming the row for what cannot be read, or with fewer than 20 pages;
    UnsupportedError if what the job needs is not installed.
    """
    _need_packages(job)
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
        network = None if job.keep == "trees" else _network(job, lists, parts, vocabulary, report)
        trees = _trees(job, lists, parts)

        def ask(rows: NDArray[np.int64]) -> dict[str, list[NDArray[Any]]]:
            found: dict[str, list[NDArray[Any]]] = {}
            if network is not None:
                found[NETWORK] = list(score(network.network, lists, rows, network.scaling))
            if trees is not None:
                found[TREES] = list(trees.score(lists, rows))
            return found

        held_out = _measured(ask(parts.held_out), lists, parts.held_out, layout)
        kept = choose({name: each["ndcg10"] for name, each in held_out.items()}, job.keep)
        scores = ask(parts.test)
        for name, rule in rules(layout).items():
            scores[name] = [rule(lists[int(row)]) for row in parts.test]
        measures = _measured(scores, lists, parts.test, layout)
        described = Description(job.name, job.version, layout, vocabulary)
        said = {"metrics": json.dumps(measures, sort_keys=True), "kept": str(kept)}
        if kept.name == TREES:
            assert trees is not None
            write_trees(trees.text, trees.scale, described, job.out, said)
        else:
            from palmkit.models.reranker.export import export

            assert network is not None
            export(network.network, network.scaling, described, job.out, said)
        if job.metrics is not None:
            with replacing(job.metrics) as part:
                part.write_text(json.dumps(told(Done(measures, kept)), indent=1) + "\n")
        if job.report is not None:
            models = _told_of_models(network, trees)
            progress = None if network is None else network.progress
            _write(job, lists, parts, scores, Done(measures, kept), models, progress)
    return Done(measures, kept)


def choose(held_out: dict[str, float], keep: Keep) -> Kept:
    """Return the model to write.

    held_out: NDCG@10 of the models that were trained, on held-out pages: the better one is kept, of
    equals the network, which learns more on the device.
    """
    name = {"network": NETWORK, "trees": TREES}.get(keep)
    # The network comes first.
    return Kept(name or max(held_out, key=held_out.__getitem__), held_out)


def told(done: Done) -> dict[str, Any]:
    """Return the measures by method and, as "kept", which model was written and why; for JSON."""
    kept = {"model": done.kept.name, "held_out_ndcg10": done.kept.held_out}
    return {**done.measures, "kept": kept}


def _need_packages(job: Job) -> None:
    """Raise UnsupportedError if what the job needs is missing: before long work, not after it."""
    if job.keep == "trees":
        needed = ("lightgbm", "rerank", "")
    else:
        needed = ("torch", "train", ", or use --keep trees")
    if find_spec(needed[0]) is None:
        raise UnsupportedError(
            f'training needs {needed[0]}: pip install "palmkit[{needed[1]}]"{needed[2]}'
        )


def _network(
    job: Job, lists: Lists, parts: Parts, vocabulary: list[dict[str, int]], report: Report
) -> Trained:
    import torch

    torch.set_num_threads(1)
    words = sum(len(each) for each in vocabulary)
    return train(
        lists, parts, words, job.recipe, lambda step, steps: report("training", step, steps)
    )


def _trees(job: Job, lists: Lists, parts: Parts) -> Trees | None:
    """Return trees where LightGBM is installed and the job wants them."""
    if not job.trees or find_spec("lightgbm") is None:
        return None
    return Trees(lists, parts.train, parts.held_out, job.recipe.seed)


def _measured(
    scores: dict[str, list[NDArray[Any]]],
    lists: Lists,
    rows: NDArray[np.int64],
    layout: Layout,
) -> dict[str, dict[str, float]]:
    labels = [lists[int(row)].labels for row in rows]
    return {name: tell(each, labels, layout) for name, each in scores.items()}


def _told_of_models(network: Trained | None, trees: Trees | None) -> dict[str, Any]:
    """Return what the report says of each model that was trained."""
    found: dict[str, Any] = {}
    if network is not None:
        found["epochs"] = len(network.progress.losses)
    if trees is not None:
        found["trees"] = trees.count
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
    done: Done,
    models: dict[str, Any],
    progress: Progress | None,
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
        "kept": str(done.kept),
        "pages to learn from / to stop by / to report on": " / ".join(map(str, map(len, parts))),
        "features": job.scope + ("" if job.with_position else ", without position and score"),
        **models,
        **(asdict(job.recipe) if progress is not None else {"seed": job.recipe.seed}),
    }
    assert job.report is not None
    write_report(job.report, f"Re-ranker {job.name}", facts, done.measures, by_events, progress)
