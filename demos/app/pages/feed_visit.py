"""A visit to the feed: the goods on offer, the visitor's actions, and the resulting order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from palmkit import kits
from palmkit.demos.app.pages.feed_goods import SCHEMA, Good, make_goods
from palmkit.kits.kit import ModelSource
from palmkit.kits.ranking.constraints import Constraints
from palmkit.kits.ranking.learning import Learned

GOODS = 60
# The number of events that the shipped model uses.
REMEMBERED = 100
# The groups of features in a visitor's words.
REASONS = {
    "sequence": "the order of what you did",
    "touches": "how often you looked at it",
    "categories": "kinds, makers and colours you chose",
    "embeddings": "looks like what you chose",
    "price": "its price beside what you chose",
    "numbers": "its stars beside what you chose",
    "taste": "your taste, learned here",
}
LEARN_S = 0.2
_NEAR_PRICE = 1.25


@dataclass(frozen=True)
class Deed:
    """An action.

    goods: one, or those that were seen. seconds: of a dwell.
    """

    kind: str
    goods: tuple[Good, ...]
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """Return the action in words."""
        first = self.goods[0].title
        if self.kind == "exposure":
            return f"saw {len(self.goods)} more"
        if self.kind == "dwell":
            return f"looked at the {first} for {self.seconds:.1f} s"
        return {"click": "opened", "like": "liked", "skip": "did not want"}[
            self.kind
        ] + f" the {first}"


@dataclass(frozen=True)
class Shown:
    """The goods in their order.

    why: for each, the contributions of groups of features to its score, strongest first; None if
    not asked for. common: for each, what it has in common with chosen ones. deeds: the latest
    actions, oldest first. milliseconds: time of the re-ranking. cold: whether nothing is known of
    the visitor yet. events: number that the session remembers. version: of a delivered model, by
    its name.
    """

    goods: list[Good]
    why: list[dict[str, float]] | None
    common: list[str]
    deeds: list[Deed]
    milliseconds: float
    cold: bool
    model: str
    version: dict[str, str]
    events: int


class Visit:
    """One visitor's visit; called by one thread at a time."""

    def __init__(
        self, model: ModelSource | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """Open the model.

        model: as Reranker takes it. now: returns the time in seconds.
        Raises what Reranker raises.
        """
        self.reranker = kits.Reranker(model, SCHEMA)
        self._now = now
        self.reset()

    def reset(self) -> None:
        """Forget everything, and go back to the first goods."""
        self._session = self.reranker.session(learns=True)
        self._release = dict(self.reranker.releases)
        self._rows: list[dict[str, Any]] = []
        self._deeds: deque[Deed] = deque(maxlen=REMEMBERED)
        self.is_learned = False
        self.number = 0
        self.goods = make_goods(GOODS, self.number)

    def turn_page(self) -> None:
        """Offer other goods from now on; earlier actions count for them, too."""
        self.number += 1
        self.goods = make_goods(GOODS, self.number)

    def did(self, kind: str, goods: Sequence[Good], seconds: float = 0.0) -> None:
        """Observe an action with goods of this page or an earlier one; ignore empty goods.

        kind: "click", "dwell" (for so many seconds), "like", "skip" or "exposure".
        """
        if not goods:
            return
        now = self._now()
        rows = [
            {**good.row(), "event": kind, "time": now, "value": seconds or None} for good in goods
        ]
        self._session.observe(rows)
        self._rows = (self._rows + rows)[-REMEMBERED:]
        self._deeds.append(Deed(kind, tuple(goods), seconds))

    def show(self, why: bool, keep: tuple[str, int] | None = None) -> Shown:
        """Return the goods in the order for this visitor.

        keep: a good, and the place, from 1, where it is to stay.
        """
        self._follow_model()
        rows = [good.row() for good in self.goods]
        rules = None if keep is None else Constraints(pinned={keep[0]: keep[1]})
        start = perf_counter()
        ranking = self._session.rerank(rows, constraints=rules, why=why)
        passed = perf_counter() - start
        order: list[int] = ranking.rows.tolist()
        goods = [self.goods[row] for row in order]
        return Shown(
            goods,
            ranking.why,
            [self._in_common(good) for good in goods],
            list(self._deeds),
            passed * 1e3,
            ranking.cold,
            ranking.model,
            dict(self._release),
            len(self._session),
        )

    def _follow_model(self) -> None:
        """Switch to a model delivered meanwhile, unless something was learned for this one."""
        if dict(self.reranker.releases) != self._release and not self.is_learned:
            self._session = self.reranker.session(learns=True)
            self._release = dict(self.reranker.releases)
            if self._rows:
                self._session.observe(self._rows)

    def learn(self) -> Learned:
        """Do what Session.learn does, with time enough for a machine that has other work."""
        learned = self._session.learn(LEARN_S)
        self.is_learned |= learned.kept
        return learned

    def undo(self) -> bool:
        """Do what Session.undo does."""
        undone = self._session.undo()
        self.is_learned &= not undone
        return undone

    def _in_common(self, good: Good) -> str:
        """Return what a good shares with the last chosen ones, in words; else ""."""
        chosen = [d.goods[0] for d in self._deeds if d.kind in ("click", "like", "dwell")]
        for other in reversed(chosen[-5:]):
            if other.id == good.id:
                return "you looked at it"
            shared = [
                word
                for word, is_same in (
                    ("kind", other.category == good.category),
                    ("colour", other.colour == good.colour),
                    ("maker", other.maker == good.maker),
                )
                if is_same
            ]
            ratio = max(other.price, good.price) / min(other.price, good.price)
            if ratio < _NEAR_PRICE and shared:
                shared.append("price")
            if shared:
                return f"like the {other.title}: {', '.join(shared)}"
        return ""


def told_why(parts: dict[str, float], most: int = 4) -> list[tuple[str, float]]:
    """Return the strongest contributions to a score, named for people."""
    found = [(REASONS[name], value) for name, value in parts.items() if name in REASONS]
    return [(name, value) for name, value in found if abs(value) >= 0.01][:most]
