"""A visit to the feed: the goods on offer, what was done with them, and the order they get."""

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
# Events that the shipped model looks back on.
REMEMBERED = 100
# What the groups of features mean to somebody who looks at goods.
REASONS = {
    "sequence": "what you did, one thing after another",
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
    """Something that was done. goods: one, or those that were seen. seconds: of a dwell."""

    kind: str
    goods: tuple[Good, ...]
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """For people."""
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

    why: of each, what its score owes to groups of features, strongest first; None if not asked for.
    common: of each, what it has in common with what was chosen. deeds: the latest, oldest first.
    milliseconds: that re-ranking took. cold: nothing is known of the visitor yet. events: that the
    session remembers. version: of a delivered model, by its name.
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
    """One visitor; called by one thread at a time."""

    def __init__(
        self, model: ModelSource | None = None, now: Callable[[], float] = time.time
    ) -> None:
        """Open the model.

        model: as Reranker takes it. now: the time in seconds.
        Raises as Reranker does.
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
        """Other goods are on offer from now on; what was done counts for them, too."""
        self.number += 1
        self.goods = make_goods(GOODS, self.number)

    def did(self, kind: str, goods: Sequence[Good], seconds: float = 0.0) -> None:
        """Observe what was done with goods, of this page or one before; none: nothing was.

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
        """The goods in the order for this visitor.

        keep: a good, and the place, from 1, at which it is to stay.
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
        """Go on with a model delivered meanwhile, unless something was learned for this one."""
        if dict(self.reranker.releases) != self._release and not self.is_learned:
            self._session = self.reranker.session(learns=True)
            self._release = dict(self.reranker.releases)
            if self._rows:
                self._session.observe(self._rows)

    def learn(self) -> Learned:
        """As Session.learn, with time enough for a machine that has other work."""
        learned = self._session.learn(LEARN_S)
        self.is_learned |= learned.kept
        return learned

    def undo(self) -> bool:
        """As Session.undo."""
        undone = self._session.undo()
        self.is_learned &= not undone
        return undone

    def _in_common(self, good: Good) -> str:
        """What a good has in common with the last ones that were chosen, in words; else ""."""
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
    """The strongest contributions to a score, named for people."""
    found = [(REASONS[name], value) for name, value in parts.items() if name in REASONS]
    return [(name, value) for name, value in found if abs(value) >= 0.01][:most]
