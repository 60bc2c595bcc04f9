"""The time of re-ranking: a page of 50 items after 100 events, in one thread."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from palmkit.kits.kit import ModelSource
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.schema import Schema

SCHEMA = Schema(categories=("category", "brand"), numbers=("stars",), price="price", score="score")
ITEMS, EVENTS = 50, 100


class Times(NamedTuple):
    """Milliseconds, the least of many runs.

    session: from a page as a list of dicts to its order, what was observed being known. call: the
    same with the history as a list of dicts. observe: one event. network: the model alone.
    """

    session: float
    call: float
    observe: float
    network: float


def page(items: int, random: np.random.Generator) -> list[dict[str, Any]]:
    """Return the items of a shop."""
    return [
        {
            "id": f"item {row}",
            "category": f"c{random.integers(8)}",
            "brand": f"b{random.integers(20)}",
            "stars": float(random.integers(1, 6)),
            "price": float(random.uniform(5, 90)),
            "score": 1 - row / items,
        }
        for row in range(items)
    ]


def time_rerank(
    model: ModelSource | None = None, items: int = ITEMS, events: int = EVENTS, runs: int = 200
) -> Times:
    """Time the kit; model: one for any schema, None: the one shipped."""
    random = np.random.default_rng(0)
    shown = page(items, random)
    kinds = ("exposure", "click", "dwell", "skip", "cart")
    history = [
        {
            **shown[int(random.integers(items))],
            "event": kinds[int(random.integers(len(kinds)))],
            "time": float(number),
            "value": 3.0,
        }
        for number in range(events)
    ]
    kit = Reranker(model, SCHEMA)
    session = kit.session()
    session.observe(history)
    # The time of the network alone, on the same shapes.
    inputs, length = session.inputs(shown)
    jobs: tuple[Callable[[], object], ...] = (
        lambda: session.rerank(shown),
        lambda: kit.rerank(shown, history),
        lambda: session.observe(history[-1]),
        lambda: kit.scorer.score(inputs, length),
    )
    least = [float("inf")] * len(jobs)
    for _ in range(runs):
        for at, job in enumerate(jobs):
            start = perf_counter()
            job()
            least[at] = min(least[at], perf_counter() - start)
    return Times(*(1e3 * each for each in least))


def main() -> None:
    """Print the times: python -m palmkit.kits.bench.rerank."""
    times = time_rerank()
    print(f"{ITEMS} items, {EVENTS} events, one thread, milliseconds at best")
    for name, value in times._asdict().items():
        print(f"  {name:8} {value:.3f}")


if __name__ == "__main__":
    main()
