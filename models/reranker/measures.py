"""Measures of an order by the places of the chosen items."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.float32]


def order_of(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Return rows by falling score, int64[n]; equal scores keep their order."""
    return np.argsort(-np.asarray(scores), kind="stable")


def shuffled(
    scores: list[NDArray[Any]], labels: list[Labels], seed: int
) -> tuple[list[NDArray[Any]], list[Labels]]:
    """Return the pages in random order, so that equal scores do not reveal the server's order."""
    random = np.random.default_rng(seed)
    orders = [random.permutation(len(each)) for each in labels]
    return (
        [each[order] for each, order in zip(scores, orders, strict=True)],
        [each[order] for each, order in zip(labels, orders, strict=True)],
    )


def reciprocal_rank(scores: NDArray[Any], labels: Labels) -> float:
    """Return 1 / the place of the first chosen item; 0 if none was."""
    hits = np.flatnonzero(labels[order_of(scores)] > 0)
    return 1 / (1 + int(hits[0])) if len(hits) else 0.0


def ndcg(scores: NDArray[Any], labels: Labels, places: int = 10) -> float:
    """Return the NDCG of the first places; 0 if nothing was chosen."""
    discounts = 1 / np.log2(np.arange(2, 2 + min(places, len(labels))))
    ideal = float(np.sort(labels)[::-1][: len(discounts)] @ discounts)
    found = float(labels[order_of(scores)][: len(discounts)] @ discounts)
    return found / ideal if ideal else 0.0


def measure(scores: list[NDArray[Any]], labels: list[Labels]) -> dict[str, float]:
    """Return means over lists: mrr, ndcg10 and hit1, the share with a chosen item first."""
    ranks = [reciprocal_rank(s, each) for s, each in zip(scores, labels, strict=True)]
    gains = [ndcg(s, each) for s, each in zip(scores, labels, strict=True)]
    return {
        "mrr": float(np.mean(ranks)),
        "ndcg10": float(np.mean(gains)),
        "hit1": float(np.mean([rank == 1 for rank in ranks])),
    }
