"""A re-ranker's model in a few lines, which scores an item by one named feature."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.scorer import Description


class Probe:
    def __init__(
        self, layout: Layout, feature: str, vocabulary: list[dict[str, int]] | None = None
    ) -> None:
        names = [name for name, _ in layout.features]
        self.column = names.index(feature)
        words = vocabulary or [{} for _ in (*layout.schema.categories, *layout.schema.context)]
        described = Description("probe", "1", layout, words if layout.scope == "own" else [])
        self.metadata: Mapping[str, str] = described.metadata()
        self.seen: dict[str, NDArray[Any]] = {}

    def run(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        self.seen = dict(inputs)
        return {"scores": np.ascontiguousarray(inputs["items"][:, :, self.column])}
