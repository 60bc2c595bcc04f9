"""palmkit rerank evaluate: what another policy would have earned, from an explored log."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from palmkit.kits.cli import rerank
from palmkit.kits.cli.command import Commands, UsageError, add_command, seed
from palmkit.kits.cli.rerank_train import recipe

if TYPE_CHECKING:
    from palmkit.kits.ranking.schema import Schema

DESCRIPTION = """\
Estimate what a policy would have earned from the log of another one that explored: what was shown
at which place, its reward (a click: 1) and the logged propensity. Three estimates with 95 %
intervals by the bootstrap: IPS, SNIPS and DR; where they disagree, or few effective rows are left,
the log says too little of the policy.

A log has a row an item, or pages whose items have their propensities (palmkit.kits.ranking.log);
of pages each place is judged as a choice among the items that those above it left.

--policy   uniform       any item that is left, each as likely
           MODEL.palm    what this model would have shown next (trained with palmkit rerank train)
           LOG           what another log shows, by place; its own rewards are then printed beside
"""
EXAMPLES = """\
  palmkit rerank evaluate obd_random_men.csv.gz                        what would chance earn
  palmkit rerank evaluate obd_random_men.csv.gz --policy obd_bts_men.csv.gz
  palmkit rerank evaluate log.jsonl --schema schema.json --policy my.palm --places 10
  palmkit rerank evaluate log.jsonl --schema schema.json --clip 20 --json
"""
NAMES = {
    "logged": "the log's own policy",
    "ips": "IPS",
    "snips": "SNIPS",
    "dr": "DR",
    "policy": "the policy, on its own log",
}


def add(commands: Commands) -> None:
    """Describe the command."""
    parser = add_command(
        commands,
        "rerank evaluate",
        run,
        help="what another policy would have earned, from a log",
        description=DESCRIPTION,
        examples=EXAMPLES,
    )
    parser.add_argument("log", metavar="LOG", help="of a policy that explored")
    parser.add_argument("--policy", default="uniform", help="uniform, MODEL.palm or LOG (uniform)")
    rerank.add_schema(parser)
    parser.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="of a model: 0: its best; else by chance, with the softmax of scores / T (0)",
    )
    parser.add_argument(
        "--places", type=int, metavar="N", help="of a page, from the top (all of them)"
    )
    parser.add_argument("--clip", type=float, metavar="W", help="no weight above this (none)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the bootstrap (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(options: argparse.Namespace) -> int:
    """Estimate the rewards."""
    import json
    import math

    from palmkit.kits.ranking.log import read_rows
    from palmkit.kits.ranking.schema import Schema

    if options.clip is not None and not options.clip > 0:
        raise UsageError(f"--clip: expected more than 0, got {options.clip}")
    if not 0 <= options.temperature < math.inf:
        raise UsageError(f"--temperature: expected 0 or more, got {options.temperature}")
    if options.places is not None and options.places < 1:
        raise UsageError(f"--places: expected at least 1, got {options.places}")
    offpolicy = recipe("offpolicy")
    schema = Schema.load(options.schema) if options.schema else None
    own: Any = None
    if options.policy == "uniform" or options.policy.endswith(".palm"):
        feedback, policy = _judged(options, schema)
    else:
        schema = schema or Schema.infer(options.log)
        feedback = offpolicy.read_feedback(read_rows(options.log), schema)
        rows = read_rows(options.policy)
        other = offpolicy.read_feedback(rows, schema, feedback.names, feedback.positions)
        own = offpolicy.evaluate(other, offpolicy.uniform(other), seed=options.seed)["logged"]
        # What the log never showed cannot be weighed: its share is lost, as the rewards say.
        policy = offpolicy.shares(other)[: len(feedback.positions), : len(feedback.names)]
    found = offpolicy.evaluate(feedback, policy, options.clip or math.inf, options.seed)
    if own is not None:
        found["policy"] = own
    if options.json:
        print(json.dumps({k: v._asdict() if k in NAMES else v for k, v in found.items()}))
        return 0
    print(f"{len(feedback.items)} rows, {len(feedback.names)} items, reward a row:")
    for name, title in NAMES.items():
        if name in found:
            value, low, high = found[name]
            print(f"  {title:27} {value:.5f}   {low:.5f} to {high:.5f}")
    print(
        f"  effective rows {found['effective_rows']:.0f}, "
        f"largest weight {found['largest_weight']:.1f}, mean weight {found['mean_weight']:.2f}"
    )
    return 0


def _judged(options: argparse.Namespace, schema: Schema | None) -> Any:
    """Return the log's feedback, and the choices of chance or a model."""
    from palmkit.kits.ranking.kit import Reranker
    from palmkit.kits.ranking.log import read_rows
    from palmkit.kits.ranking.schema import Schema

    reranker: Reranker | None = None
    if options.policy != "uniform":
        reranker = Reranker(options.policy, None, cold_start="model")
        own = reranker.schema
        schema = schema or own or Schema.infer(options.log)
        if own is None:
            reranker = Reranker(reranker.source, schema, cold_start="model")
    schema = schema or Schema.infer(options.log)
    return recipe("policies").judged(
        read_rows(options.log), schema, reranker, options.temperature, options.places
    )
