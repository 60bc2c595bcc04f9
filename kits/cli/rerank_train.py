"""palmkit rerank train: learn to re-rank from one's own log."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from palmkit.kits.cli import rerank
from palmkit.kits.cli.command import Commands, UsageError, add_command, progress_bar, seed

DESCRIPTION = """\
Learn a re-ranker from a log of pages, choices and events, in the order of time (.jsonl, .csv, .tsv,
.parquet, also .gz; palmkit.kits.ranking.log describes the rows). The log is streamed twice; what
the models see of it lies in a temporary folder. Of the sessions, by their beginning, the last tenth
is reported on, a tenth of the others is held out and decides when to stop.

A network is trained and, where LightGBM is installed, trees on the same features (LambdaMART). The
one with the higher NDCG@10 on the held-out pages is written; the device needs neither torch nor
LightGBM. Of a network the last layers learn from each user on the device, of trees a taste that is
added to their scores. In the report: both, and simple rules.

Needs torch, and for trees, Parquet and plots more: pip install "palmkit[train,rerank]"; with --keep
trees "palmkit[rerank]" does.
"""
EXAMPLES = """\
  palmkit rerank log.jsonl --propose > schema.json      then look at it
  palmkit rerank train log.jsonl --schema schema.json -o my.palm --report report.html
  palmkit rerank train 2026-*.parquet --schema schema.json -o my.palm --epochs 20
  palmkit rerank train log.csv.gz -o my.palm --without-position
  palmkit rerank train log.jsonl -o my.palm --keep trees
"""


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "rerank train",
        run,
        help="learn to re-rank from one's own log",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="in the order of time")
    rerank.add_schema(parser)
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="the .palm to write")
    parser.add_argument("--report", metavar="HTML", help="write a report with plots")
    parser.add_argument("--metrics", metavar="JSON", help="write the measures")
    parser.add_argument("--name", default="reranker", help="the model's name (reranker)")
    parser.add_argument("--model-version", default="1.0", metavar="V", help="its version (1.0)")
    see = parser.add_argument_group("what the network sees")
    see.add_argument(
        "--any-schema",
        action="store_true",
        help="only what columns mean, not the columns: the model then takes any schema",
    )
    see.add_argument(
        "--without-position", action="store_true", help="neither the server's order nor its score"
    )
    see.add_argument("--length", type=int, default=100, metavar="N", help="latest events (100)")
    how = parser.add_argument_group("how it learns")
    how.add_argument("--epochs", type=int, default=12, metavar="N", help="at most (12)")
    how.add_argument("--learning-rate", type=float, default=1e-3, metavar="R", help="(0.001)")
    how.add_argument("--dropout", type=float, default=0.3, metavar="P", help="0 to 1 (0.3)")
    how.add_argument("--width", type=int, default=64, metavar="N", help="channels (64)")
    how.add_argument("--seed", type=seed, default=0, metavar="N", help="of all that is random (0)")
    how.add_argument(
        "--keep",
        choices=("better", "network", "trees"),
        default="better",
        help="the model to write (%(default)s, by NDCG@10 on held-out pages)",
    )
    how.add_argument(
        "--no-trees", action="store_true", help="train no trees, not to compare either"
    )
    parser.add_argument("--json", action="store_true", help="print the measures as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def recipe(name: str) -> Any:
    """Return a module of palmkit.models, to which only these commands reach up."""
    return importlib.import_module(f"palmkit.models.reranker.{name}")


def run(options: argparse.Namespace) -> int:
    """Train the model."""
    import json

    from palmkit.kits.ranking.schema import Schema

    if Path(options.output).suffix != ".palm":
        raise UsageError(f"-o: expected a name that ends with .palm, got {options.output!r}")
    for name in ("length", "epochs", "width"):
        if getattr(options, name) < 1:
            raise UsageError(f"--{name}: expected at least 1, got {getattr(options, name)}")
    if options.width % 4:
        raise UsageError(f"--width: expected a multiple of 4, got {options.width}")
    if not 0 <= options.dropout < 1:
        raise UsageError(f"--dropout: expected 0 to 1, got {options.dropout}")
    if options.keep == "trees" and options.no_trees:
        raise UsageError("--no-trees: expected without --keep trees")
    schema = Schema.load(options.schema) if options.schema else Schema.infer(options.logs[0])
    training, recipes = recipe("train"), recipe("recipe")
    job = recipes.Job(
        logs=tuple(map(Path, options.logs)),
        schema=schema,
        out=Path(options.output),
        report=Path(options.report) if options.report else None,
        metrics=Path(options.metrics) if options.metrics else None,
        scope="any" if options.any_schema else "own",
        with_position=not options.without_position,
        length=options.length,
        keep=options.keep,
        trees=not options.no_trees,
        name=options.name,
        version=options.model_version,
        recipe=training.Recipe(
            epochs=options.epochs,
            learning_rate=options.learning_rate,
            dropout=options.dropout,
            width=options.width,
            seed=options.seed,
        ),
    )
    with progress_bar(None, "", options.quiet) as bar:

        def report(step: str, done: int, all: int | None) -> None:
            bar.set_description(step, refresh=False)
            bar.total = all
            bar.n = done
            bar.update(0)

        done = recipes.run(job, report)
    if options.json:
        print(json.dumps(recipes.told(done)))
        return 0
    width = max(map(len, done.measures))
    print(f"{'':{width}}    MRR  NDCG@10  first")
    for name, values in done.measures.items():
        told = f"{values['mrr']:.4f}   {values['ndcg10']:.4f}  {values['hit1']:.3f}"
        print(f"{name:{width}}  {told}")
    print(f"written to {options.output}: {done.kept}")
    return 0
