"""Gradient-boosted trees beside the network: LightGBM's LambdaMART, run by the engine's own op.

LightGBM (extra `rerank`) is needed to train; a model file holds its trees as the op tree_ensemble.
"""

from __future__ import annotations

from math import exp
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine import save
from palmkit.engine.converters.lightgbm.model import read
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Dim, Graph, Node, Type, check
from palmkit.kits.ranking.kit import PLANNED_ITEMS
from palmkit.kits.ranking.scorer import Description
from palmkit.models.reranker.dataset import Example, Lists

_Scores: TypeAlias = NDArray[np.float32]
_Rows: TypeAlias = NDArray[np.int64]

# Options of LightGBM's LambdaMART (Burges, 2010) that are strong for a few thousand pages.
OPTIONS = {
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
# Beyond it float32 does not have every whole number: what a code is in the model.
_MOST_CODES = 1 << 24


class Trees:
    """LightGBM's LambdaMART on the network's features; codes as its categories.

    scale: what the sums of the trees are multiplied by, so that differences within a page are
    log-odds, as the network's are.
    """

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
        self._booster: Any = lightgbm.train({**OPTIONS, "seed": seed}, learned, **options)
        self.scale = 1.0
        known = held_out if len(held_out) else train
        labels = [lists[int(row)].labels for row in known]
        self.scale = fitting_scale(self.score(lists, known), labels)

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

    @property
    def text(self) -> str:
        """The trees of the best round, as LightGBM writes them."""
        return str(self._booster.model_to_string())

    @property
    def count(self) -> int:
        """The number of trees of the best round."""
        return int(self._booster.best_iteration or self._booster.num_trees())

    def score(self, lists: Lists, rows: _Rows) -> list[_Scores]:
        """Return the scores of each page's items."""
        counts = lists.counts[rows]
        tables = np.concatenate([_table(lists[int(row)]) for row in rows])
        found = np.asarray(self.scale * self._booster.predict(tables), np.float32)
        return np.split(found, np.cumsum(counts)[:-1])


def _table(example: Example) -> NDArray[Any]:
    inputs = example.inputs
    return np.concatenate([inputs.items, inputs.item_codes], axis=1)


def fitting_scale(scores: list[_Scores], labels: list[_Scores]) -> float:
    """Return the factor by which scores have the least cross entropy of the choice (ListNet's).

    LambdaMART's scores say an order only: how far they are apart has no meaning. The cross entropy
    is convex in the factor, which is sought from 1/100 to 100.
    """
    room = max(map(len, scores))
    shown = np.full((len(scores), room), -np.inf)
    chosen = np.zeros((len(scores), room))
    for row, (score, label) in enumerate(zip(scores, labels, strict=True)):
        shown[row, : len(score)] = score - score.max()
        chosen[row, : len(label)] = label / max(label.sum(), 1)
    at_chosen = float((chosen * np.where(np.isfinite(shown), shown, 0)).sum(axis=1).mean())

    def loss(log_factor: float) -> float:
        factor = exp(log_factor)
        return float(np.log(np.exp(factor * shown).sum(axis=1)).mean()) - factor * at_chosen

    low, high = np.log(0.01), np.log(100.0)
    # By golden sections.
    share = (5**0.5 - 1) / 2
    for _ in range(40):
        left, right = high - share * (high - low), low + share * (high - low)
        if loss(left) <= loss(right):
            high = right
        else:
            low = left
    return exp((low + high) / 2)


def export(
    text: str, scale: float, described: Description, out: Path, said: dict[str, str]
) -> None:
    """Write trees as a .palm file that palmkit.kits.Reranker takes.

    text: of LightGBM's save_model, of the columns of Inputs.items and behind them item_codes.
    scale: what the sums are multiplied by. said: further metadata of the file. Its output "hidden"
    is the score: to it a user's taste is added, which is all that Session.learn then learns.
    Raises ModelError for trees of another layout, UnsupportedError for more words than float32 has
    whole numbers.
    """
    layout = described.layout
    width, own = len(layout.features), layout.scope == "own"
    codes = len(layout.schema.categories) + len(layout.schema.context) if own else 0
    forest = read(text, scale)
    if forest.features != width + codes or forest.outputs != 1:
        raise ModelError(f"trees: expected {width + codes} features, got {forest.features}")
    if sum(len(each) for each in described.vocabulary) >= _MOST_CODES:
        raise UnsupportedError(f"trees: expected fewer than {_MOST_CODES} words")
    around: tuple[Dim, ...] = ("pages", "count")
    inputs = {"items": Type("float32", (*around, width))}
    nodes: list[Node] = []
    features = "items"
    if codes:
        inputs["item_codes"] = Type("int64", (*around, codes))
        features = "features"
        nodes += [
            Node("cast", ("item_codes",), ("codes",), {"to": "float32"}),
            Node("concat", ("items", "codes"), (features,), {"axis": 2}),
        ]
    constants: dict[str, Array] = {"last": np.array([2])}
    names: list[str] = []
    for name, value in forest.trees.inputs(1).items():
        names.append("" if value is None else name)
        if value is not None:
            constants[name] = value
    while not names[-1]:
        names.pop()
    nodes += [
        Node("tree_ensemble", (features, *names), ("hidden",)),
        Node("squeeze", ("hidden", "last"), ("scores",)),
    ]
    outputs = {"scores": Type("float32", around), "hidden": Type("float32", (*around, 1))}
    graph = Graph(inputs, outputs, tuple(nodes), constants, {**described.metadata(), **said})
    check(graph)
    planned = {
        name: [1, PLANNED_ITEMS, *(int(dim) for dim in type.shape[2:])]
        for name, type in inputs.items()
    }
    save(graph, out, "smallest", [planned])
