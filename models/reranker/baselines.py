"""Baselines for the network: simple rules, and gradient-boosted trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import UnsupportedError
from palmkit.kits.ranking.features import Layout
from palmkit.models.reranker.dataset import Example, Lists

_Scores: TypeAlias = NDArray[np.float32]
_Rows: TypeAlias = NDArray[np.int64]

SERVER = "the server's order"
TOUCHED = "last touched first, then the server's order"
# Options of LightGBM's LambdaMART (Burges, 2010) that are strong for a few thousand pages.
TREES = {
    "objective": "lambdarank",
    "metric": "ndcg",
    "eval_at": [25],
    "learning_rate": 0.03,
    "num_leaves": 15,
    "min_data_in_leaf": 40,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.6,
    "lambda_l2": 5.0,
    "num_threads": 1,
    "verbose": -1,
}
ROUNDS, PATIENCE = 800, 60
ROUNDS_UNSTOPPED = 300


def rules(layout: Layout) -> dict[str, Callable[[Example], _Scores]]:
    """Return the rules by name, which score each item of a page in the server's order.

    Without position the server's order is not available as a rule.
    """
    names = [name for name, _ in layout.features]

    def column(name: str, sign: float = 1) -> Callable[[Example], _Scores]:
        at = names.index(name)
        return lambda example: np.float32(sign) * example.inputs.items[:, at]

    def by_place(example: Example) -> _Scores:
        return -np.arange(len(example.labels)).astype(np.float32)

    touched = column("touches: order")
    found: dict[str, Callable[[Example], _Scores]] = {"last touched first": touched}
    if layout.schema.price is not None:
        found["cheapest first"] = column("price: log", -1)
    if layout.with_position:
        if layout.schema.score is not None:
            found["the server's score"] = column("score: of page")
        found[SERVER] = by_place
        found[TOUCHED] = lambda example: np.float32(1e6) * touched(example) + by_place(example)
    return found


class Trees:
    """LightGBM's LambdaMART on the same features; codes as its categories."""

    def __init__(self, lists: Lists, train: _Rows, held_out: _Rows, seed: int) -> None:
        """Train with early stopping on the held-out pages; without any, 300 rounds.

        Pages are shuffled first: trees that cannot tell items apart must not gain by their order.
        Raises UnsupportedError if lightgbm is missing (extra `rerank`).
        """
        try:
            import lightgbm
        except ImportError:
            raise UnsupportedError('trees need LightGBM: pip install "palmkit[rerank]"') from None
        random = np.random.default_rng(seed)
        codes = lists[0].inputs.item_codes.shape[1]
        width = lists[0].inputs.items.shape[1]
        self._codes = list(range(width, width + codes))
        learned = self._dataset(lightgbm, lists, train, random, None)
        options: dict[str, Any] = {"num_boost_round": ROUNDS_UNSTOPPED}
        if len(held_out):
            stopping = self._dataset(lightgbm, lists, held_out, random, learned)
            callback = lightgbm.early_stopping(PATIENCE, verbose=False)
            options = {
                "num_boost_round": ROUNDS,
                "valid_sets": [stopping],
                "callbacks": [callback],
            }
        self._booster: Any = lightgbm.train({**TREES, "seed": seed}, learned, **options)

    def _dataset(
        self, lightgbm: Any, lists: Lists, rows: _Rows, random: np.random.Generator, reference: Any
    ) -> Any:
        tables: list[NDArray[Any]] = []
        labels: list[_Scores] = []
        for row in rows:
            example = lists[int(row)]
            order = random.permutation(len(example.labels))
            tables.append(_table(example)[order])
            labels.append(example.labels[order])
        return lightgbm.Dataset(
            np.concatenate(tables),
            np.concatenate(labels),
            group=[len(each) for each in labels],
            categorical_feature=self._codes,
            reference=reference,
        )

    def score(self, lists: Lists, rows: _Rows) -> list[_Scores]:
        """Return the scores of each page's items."""
        counts = lists.counts[rows]
        tables = np.concatenate([_table(lists[int(row)]) for row in rows])
        found = np.asarray(self._booster.predict(tables), np.float32)
        return np.split(found, np.cumsum(counts)[:-1])


def _table(example: Example) -> NDArray[Any]:
    inputs = example.inputs
    return np.concatenate([inputs.items, inputs.item_codes], axis=1)
