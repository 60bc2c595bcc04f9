"""A page in a new order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.results.result import TOLD, Result, counted, rounded


@dataclass(frozen=True, eq=False, repr=False)
class Ranking(Result):
    """A page in its new order, best first.

    ids: of the items, as they were given: 7 stays 7. rows: int64[n], where each stood in the items
    given.
    scores: float32[n], of the network with boosts and freshness; differences within a page are
    log-odds, 0.7 is twice as likely.
    model: its name and version. cold: without a history, so in the server's order.
    propensities: float64[n], with exploration: how likely each item was at its place, those above
    it given; to be logged with the page.
    why: if asked for: of each item what its score owes to each group of features, strongest first.
    """

    ids: list[Any]
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    model: str
    cold: bool = False
    propensities: NDArray[np.float64] | None = None
    why: list[dict[str, float]] | None = None

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self.ids)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the command line; scores and reasons to 1/10000."""
        found: dict[str, Any] = {
            "order": [each.item() if isinstance(each, np.generic) else each for each in self.ids],
            "scores": rounded(self.scores, 4),
            "model": self.model,
            "cold": self.cold,
        }
        if self.propensities is not None:
            found["propensities"] = self.propensities.tolist()
        if self.why is not None:
            found["why"] = [{n: round(v, 4) for n, v in each.items()} for each in self.why]
        return found

    def words(self) -> list[str]:
        """Return the ids in order, and, if asked for, the contributions to each item's score."""
        cold = " (the server's order: nothing is known of the user)" if self.cold else ""
        lines = [f"{' '.join(map(str, self.ids))}{cold}"]
        for name, reasons in zip(self.ids, self.why or (), strict=False):
            told = ", ".join(f"{group} {value:+.2f}" for group, value in list(reasons.items())[:4])
            lines.append(f"{name}: {told}")
        return lines

    def __repr__(self) -> str:
        """Return one short line: how many items there are, and the first of them."""
        first = ", ".join(str(each) for each in self.ids[:TOLD])
        more = ", ..." if len(self) > TOLD else ""
        cold = ", cold" if self.cold else ""
        return f"<Ranking of {counted(len(self), 'item')}: {first}{more}; {self.model}{cold}>"
