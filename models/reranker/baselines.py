"""Simple rules to compare with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.features import Layout
from palmkit.models.reranker.dataset import Example

_Scores: TypeAlias = NDArray[np.float32]

SERVER = "the server's order"
TOUCHED = "last touched first, then the server's order"


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
