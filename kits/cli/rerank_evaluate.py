"""palmkit rerank evaluate: what another policy would have earned, from an explored log."""

from __future__ import annotations

import argparse
from typing import Any

from palmkit.kits.cli import rerank
from palmkit.kits.cli.command import Commands, UsageError, add_command
from palmkit.kits.cli.rerank_train import recipe

DESCRIPTION = """\
Estimate what a policy would have earned from the log of another one that explored: a row an item
shown, with its place, its reward (a click: 1) and the logged propensity. Three estimates with 95 %
intervals by the bootstrap: IPS, SNIPS and DR; where they disagree, or few effective rows are left,
the log says too little of the policy.

--policy   uniform   any item, each as likely
           LOG       what another log shows, by place; its own rewards are then printed beside
"""
EXAMPLES = """\
  palmkit rerank evaluate obd_random_men.csv.gz                        what would chance earn
  palmkit rerank evaluate obd_random_men.csv.gz --policy obd_bts_men.csv.gz
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
    parser.add_argument("--policy", default="uniform", help="uniform, or a LOG (uniform)")
    rerank.add_schema(parser)
    parser.add_argument("--clip", type=float, metavar="W", help="no weight above this (none)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the bootstrap (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(options: argparse.Namespace) -> int:
    """Estimate."""
    import json
    import math

    from palmkit.kits.ranking.log import read_rows
    from palmkit.kits.ranking.schema import Schema

    if options.clip is not None and not options.clip > 0:
        raise UsageError(f"--clip: expected more than 0, got {options.clip}")
    offpolicy = recipe("offpolicy")
    schema = Schema.load(options.schema) if options.schema else Schema.infer(options.log)
    feedback = offpolicy.read_feedback(read_rows(options.log), schema)
    own: Any = None
    if options.policy == "uniform":
        policy = offpolicy.uniform(feedback)
    else:
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
        f"largest weight {found['largest_weight']:.1f}"
    )
    return 0
