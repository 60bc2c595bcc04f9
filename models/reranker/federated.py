"""Averaging what re-rankers learned on devices, by Flower; nothing of it is in the kit.

Simulated users of habit (palmkit.models.reranker.personal) look at pages on their devices, all in
one shop. In each round every device fits the re-ranker's last two layers to its own pages
(palmkit.kits.ranking.head), beginning at the shared weights, and hands over the weights alone,
which Flower averages: plainly ("average"), or each device's change clipped and noise added to the
mean ("private": DifferentialPrivacyServerSideFixedClipping; McMahan et al., Learning Differentially
Private Recurrent Language Models, 2018). The taste of a single user stays on the device. Measured:
NDCG@10 of what new users would click, who gave nothing.

Devices and server are objects of one process: strategies are called as Flower's server calls them,
without a network. In an app the same arrays go through flwr's ClientApp, there with SecAgg+
(SecAggPlusWorkflow) if the server is not to see any single device's.

`python -m palmkit.models.reranker.federated OUT.json` needs the extra `federated`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.head import Head, Weights
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.learning import Learner, Shown
from palmkit.kits.ranking.page import encode_page
from palmkit.kits.ranking.taste import own_of, taste_width
from palmkit.models.reranker.measures import ndcg
from palmkit.models.reranker.personal import Habitual
from palmkit.models.reranker.simulator import SCHEMA, Catalogue

PAGES, ROUNDS, CLIP = 12, 6, 0.5
# The average of many devices needs no pull to the shipped weights.
COUNTED = 10**9
Arrays = list[NDArray[Any]]
WAYS = ("average", "private")


def pages_of(users: int, seed: int, head: Head, reranker: Reranker) -> list[list[Shown]]:
    """Return for each user the pages seen and the would-be clicks, as a session stores them."""
    shop = Catalogue.drawn(np.random.default_rng(seed))
    found: list[list[Shown]] = []
    for number in range(users):
        user = Habitual(shop, np.random.default_rng([seed, number]), 1e6)
        session = reranker.session()
        learner = Learner(head, 20_000_000)
        for _ in range(PAGES):
            items, rows = user.page()
            inputs, length = session.inputs(rows)
            hidden = reranker.scorer.infer(inputs, length)[1]
            page = encode_page(rows, SCHEMA, [{}] * len(SCHEMA.categories))
            learner.show(page.ids, hidden, own_of(page, SCHEMA, learner.words))
            chances = 1 / (1 + np.exp(1 - user.worth(items)))
            learner.pages[-1].wanted[:] = user.random.random(len(items)) < chances
            clicked, events = user.look(items, [str(row["id"]) for row in rows])
            known = {str(row["id"]): row for row in rows}
            done = [{"event": "click", "id": name, "time": user.time} for name in clicked]
            session.observe([{**known[str(e["id"])], **e, "time": user.time}
                             for e in (*events, *done)])  # fmt: skip
        found.append([page for page in learner.pages if page.is_usable])
    return found


def gain(head: Head, weights: Weights, pages: Iterable[list[Shown]]) -> float:
    """Return the mean NDCG@10 of users' pages."""
    found: list[float] = []
    for user in pages:
        for page in user:
            scores = head.score(weights, page.part().filled(64))[0, : len(page.ids)]
            found.append(ndcg(scores, page.wanted.astype(np.float32)))
    return float(np.mean(found))


def fit(head: Head, shared: Weights, pages: list[Shown], seed: int) -> Weights:
    """Return what a device hands over: the model's own layers after its pages, not its taste."""
    weights = {name: value.copy() for name, value in shared.items()}
    learner = Learner(head, 20_000_000)
    learner.fit(weights, pages, seed, counted=COUNTED)
    return {name: weights[name] for name in shared if name != head.taste}


def strategy(way: str, noise: float, devices: int, start: Arrays) -> Any:
    """Return Flower's strategy.

    way: one of WAYS. noise: standard deviation of the sum's noise, over the clip.
    Raises ImportError without flwr, ValueError for another way.
    """
    if way not in WAYS:
        raise ValueError(f"way: expected one of {', '.join(WAYS)}, got {way!r}")
    try:
        known: Any = import_module("flwr.server.strategy")
        common: Any = import_module("flwr.common")
    except ImportError:
        raise ImportError('needs Flower: pip install "palmkit[federated]"') from None
    plain = known.FedAvg(initial_parameters=common.ndarrays_to_parameters(start))
    if way == "average":
        return plain
    private = known.DifferentialPrivacyServerSideFixedClipping(plain, noise, CLIP, devices)
    private.current_round_params = start
    return private


def average(made: Any, number: int, shared: Arrays, handed: list[Arrays]) -> Arrays:
    """Run one round of a strategy, called as by Flower's server."""
    common: Any = import_module("flwr.common")
    if hasattr(made, "current_round_params"):
        made.current_round_params = shared
    results = [
        (
            None,
            common.FitRes(
                common.Status(common.Code.OK, ""), common.ndarrays_to_parameters(each), 1, {}
            ),
        )
        for each in handed
    ]
    parameters, _ = made.aggregate_fit(number, results, [])
    found: Arrays = common.parameters_to_ndarrays(parameters)
    return found


def measure(devices: int, others: int, noise: float, seed: int = 7) -> dict[str, Any]:
    """Return NDCG@10 on others' pages: as shipped, and after rounds of each way."""
    reranker = Reranker(None, SCHEMA)
    head = reranker.scorer.head(taste_width(SCHEMA))
    own = pages_of(devices, seed, head, reranker)
    new = pages_of(others, seed + 1, head, reranker)
    found: dict[str, Any] = {
        "devices": devices,
        "new users": others,
        "rounds": ROUNDS,
        "clip": CLIP,
        "noise over clip": noise,
        "shipped": gain(head, head.shipped, new),
    }
    names = [name for name in head.shipped if name != head.taste]
    for way in WAYS:
        shared = {name: value.copy() for name, value in head.shipped.items()}
        made = strategy(way, noise, devices, [shared[name] for name in names])
        for number in range(ROUNDS):
            handed = [fit(head, shared, pages, number) for pages in own]
            np.random.seed(seed + number)  # noqa: NPY002 (what Flower's noise is drawn from)
            arrays = average(
                made,
                number + 1,
                [shared[name] for name in names],
                [[each[name] for name in names] for each in handed],
            )
            for name, array in zip(names, arrays, strict=True):
                shared[name] = np.asarray(array, np.float32)
        found[way] = gain(head, shared, new)
    return found


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="federated averaging of re-rankers")
    parser.add_argument("out", type=Path, help="the numbers, JSON")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--others", type=int, default=60)
    parser.add_argument("--noise", type=float, default=0.5, help="over the clip, of the sum (0.5)")
    options = parser.parse_args(None if arguments is None else list(arguments))
    found = measure(options.devices, options.others, options.noise)
    with replacing(options.out) as part:
        part.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
