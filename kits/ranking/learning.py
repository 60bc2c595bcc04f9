"""Learning from one user's own events: shown pages, a guard, and a way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.events import Events
from palmkit.kits.ranking.head import ITEMS, PAGES, Head, Part, Weights
from palmkit.kits.ranking.scorer import Last, room_for
from palmkit.kits.ranking.table import Floats, Keys
from palmkit.kits.ranking.taste import Own

# Pages with a choice that learning takes at least. Of these one in four is held back, the latest.
LEAST_PAGES, HELD_BACK, MOST_HELD = 12, 4, 16
# Parts of the way from the old weights to the new ones that are judged, too.
SHARES = (0.5, 0.25)
# How many of the latest pages are searched for an event's item.
LOOKED_BACK = 8
EPOCHS = 12


@dataclass(frozen=True)
class Learned:
    """The result of a call of Session.learn.

    kept: whether the user's model has changed; reason: why not. pages, held_back: numbers of pages
    to learn from, and to judge by. loss, ndcg10: on the held-back pages, before and after: cross
    entropy of the choice, NDCG@10. steps; seconds: that the call took; memory_bytes: pages, weights
    and what a step needs.
    """

    kept: bool
    reason: str
    pages: int
    held_back: int
    loss: tuple[float, float] | None
    ndcg10: tuple[float, float] | None
    steps: int
    seconds: float
    memory_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the result ready for JSON."""
        return asdict(self)


NOTHING_SHOWN = Learned(
    False, f"expected {LEAST_PAGES} pages with a choice, got 0", 0, 0, None, None, 0, 0.0, 0
)


@dataclass(eq=False)
class Shown:
    """A page that was shown.

    ids: of the items, in this process. hidden: float32[n, channels], the model's features of each
    item; own: its own features. wanted, seen: bool[n], from events.
    """

    ids: Keys
    hidden: Floats
    own: Own
    wanted: NDArray[np.bool_]
    seen: NDArray[np.bool_]

    @property
    def counts(self) -> NDArray[np.bool_]:
        """The items that count: those looked at, if that is known, else all."""
        return self.seen | self.wanted if self.seen.any() else np.ones_like(self.seen)

    @property
    def is_usable(self) -> bool:
        """Whether something was chosen, and something else was not."""
        return bool(self.wanted.any() and (self.counts & ~self.wanted).any())

    @property
    def size_bytes(self) -> int:
        """The size of its arrays."""
        own = self.own.codes.nbytes + self.own.measures.nbytes
        return self.ids.nbytes + self.hidden.nbytes + own + 2 * self.wanted.nbytes

    def settled(self) -> Shown:
        """Return only the items that count, once no more events come."""
        rows = np.flatnonzero(self.counts)
        return Shown(
            self.ids[rows], self.hidden[rows], self.own.taken(rows), self.wanted[rows],
            self.seen[rows],
        )  # fmt: skip

    def part(self) -> Part:
        """Return the inputs of the last layers."""
        return Part(self.hidden[None], self.own.wide[None])


@dataclass(eq=False)
class Learner:
    """One user's pages and weights.

    weights: None: as the model was shipped. words: as in own_of.
    """

    head: Head
    memory_bytes: int
    pages: list[Shown] = field(default_factory=list[Shown])
    weights: Weights | None = None
    words: dict[int, int] = field(default_factory=dict[int, int])
    _before: list[Weights | None] = field(default_factory=list["Weights | None"])
    _calls: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError if the memory is too little for the weights and one step."""
        if self.memory_bytes < self.head.memory_bytes + (64 << 10):
            raise ValueError(
                f"memory_bytes: expected at least {self.head.memory_bytes + (64 << 10)}, "
                f"got {self.memory_bytes}"
            )

    @property
    def used_bytes(self) -> int:
        """The size of pages, weights and what a step needs."""
        return self.head.memory_bytes + sum(page.size_bytes for page in self.pages)

    def show(self, ids: Keys, hidden: Floats, own: Own) -> None:
        """Remember a page; the oldest are forgotten where there is no room for more."""
        none = np.zeros(len(ids), bool)
        self.pages.append(Shown(ids, hidden.copy(), own, none, none.copy()))
        if len(self.pages) > LOOKED_BACK:
            # A page nobody chose from says nothing once others came after it.
            late = self.pages.pop(-1 - LOOKED_BACK)
            if late.is_usable:
                self.pages.insert(len(self.pages) - LOOKED_BACK, late.settled())
        self._make_room()

    def _make_room(self) -> None:
        used = self.used_bytes
        while self.pages and used > self.memory_bytes:
            used -= self.pages.pop(0).size_bytes

    def note(self, events: Events) -> None:
        """Record events on items of the pages shown last."""
        for key, wanted in zip(events.ids.tolist(), events.wanted.tolist(), strict=True):
            for page in reversed(self.pages[-LOOKED_BACK:] if key else []):
                at = np.flatnonzero(page.ids == key)
                if len(at):
                    (page.wanted if wanted else page.seen)[at[0]] = True
                    break

    def last(self, own: Own) -> Last:
        """Return a function from features float32[b, n, channels] of these items to scores."""
        weights = self.head.shipped if self.weights is None else self.weights
        wide = own.wide

        def score(hidden: Floats) -> Floats:
            size, count = hidden.shape[:2]
            part = Part(hidden, np.broadcast_to(wide, (size, *wide.shape)))
            part = part.filled(room_for(count))
            return self.head.score(weights, part)[:, :count]

        return score

    def liked(self, own: Own) -> Floats | None:
        """Return the part of the scores that is taste, float32[n]; None: nothing was learned."""
        return None if self.weights is None else self.head.liked(self.weights, own.wide)

    def learn(self, time_s: float) -> Learned:
        """Fine-tune within a time; the weights change only if held-back pages got better.

        Raises ValueError for a time that is not above 0.
        """
        start = perf_counter()
        if not time_s > 0:
            raise ValueError(f"time_s: expected more than 0, got {time_s}")
        usable = [page for page in self.pages if page.is_usable]
        # The latest are held back: what held for an earlier visit only must not seem to be better.
        held = usable[-min(len(usable) // HELD_BACK, MOST_HELD) :]
        known = usable[: len(usable) - len(held)]

        def told(
            reason: str,
            loss: tuple[float, float] | None = None,
            ndcg10: tuple[float, float] | None = None,
            steps: int = 0,
        ) -> Learned:
            return Learned(
                not reason, reason, len(known), len(held), loss, ndcg10, steps,
                perf_counter() - start, self.used_bytes,
            )  # fmt: skip

        if len(usable) < LEAST_PAGES:
            return told(f"expected {LEAST_PAGES} pages with a choice, got {len(usable)}")
        old = self.head.shipped if self.weights is None else self.weights
        began = perf_counter()
        before = self._judged(old, held)
        judging = perf_counter() - began
        new = {name: value.copy() for name, value in old.items()}
        until = start + time_s - (2.5 + len(SHARES)) * judging
        self._calls += 1
        steps = self.fit(new, known, self._calls, until)
        if not steps:
            return told("no time for a step")
        if not all(np.isfinite(value).all() for value in new.values()):
            return told("the weights grew without end", steps=steps)
        # The whole way to the new weights, or a part of it.
        ways = [new, *(_between(old, new, share) for share in SHARES)]
        judged = [self._judged(each, held) for each in ways]
        best = min(range(len(ways)), key=lambda at: judged[at][0])
        after = judged[best]
        loss, ndcg10 = (before[0], after[0]), (before[1], after[1])
        if not (after[0] < before[0] and after[1] >= before[1]):
            return told("not better on held-back pages", loss, ndcg10, steps)
        self._before = [self.weights]
        self.weights = ways[best]
        return told("", loss, ndcg10, steps)

    def undo(self) -> bool:
        """Undo the last kept change; return False if there is none."""
        if not self._before:
            return False
        self.weights = self._before.pop()
        return True

    def restore(self, pages: list[Shown], weights: Weights | None, words: dict[int, int]) -> None:
        """Continue from another session's state."""
        self.pages, self.weights = pages, weights
        self.words = words
        self._before = []
        self._make_room()

    def fit(
        self,
        weights: Weights,
        known: Sequence[Shown],
        seed: int,
        until: float = math.inf,
        counted: int | None = None,
    ) -> int:
        """Train weights on pages for EPOCHS or until perf_counter is `until`; return the steps.

        counted: the number of pages that they stand for against the shipped weights, if not their
        own.
        """
        random = np.random.default_rng(seed)
        steps, longest = 0, 0.0
        with self.head.training(weights, counted or len(known)) as step:
            for _ in range(EPOCHS):
                order: list[int] = random.permutation(len(known)).tolist()
                for at in range(0, len(order), PAGES):
                    began = perf_counter()
                    if began + 1.5 * longest > until:
                        return steps
                    some = [known[row] for row in order[at : at + PAGES]]
                    step(*_batch(some, self.head))
                    longest = max(longest, perf_counter() - began)
                    steps += 1
        return steps

    def _judged(self, weights: Weights, pages: Sequence[Shown]) -> tuple[float, float]:
        """Return mean cross entropy and NDCG@10 of pages."""
        losses: list[float] = []
        gains: list[float] = []
        for page in pages:
            count = len(page.ids)
            part = page.part().filled(room_for(count))
            scores = self.head.score(weights, part)[0, :count].astype(np.float64)
            counts, wanted = page.counts, page.wanted[page.counts]
            kept = scores[counts] - scores[counts].max()
            logs = kept - np.log(np.exp(kept).sum())
            losses.append(float(-logs[wanted].mean()))
            gains.append(_ndcg(kept, wanted))
        return float(np.mean(losses)), float(np.mean(gains))


def _between(old: Weights, new: Weights, share: float) -> Weights:
    return {name: old[name] + np.float32(share) * (new[name] - old[name]) for name in old}


def _ndcg(scores: NDArray[Any], wanted: NDArray[np.bool_], places: int = 10) -> float:
    discounts = 1 / np.log2(np.arange(2, 2 + min(places, len(scores))))
    order = np.argsort(-scores, kind="stable")[:places]
    ideal = discounts[: int(wanted.sum())].sum()
    return float(discounts[wanted[order]].sum() / ideal)


def _batch(pages: Sequence[Shown], head: Head) -> tuple[Part, Floats, Floats]:
    """Return pages as Head.training takes them; long ones keep chosen items, then the first."""
    part = head.room(PAGES)
    relevance = np.zeros((PAGES, ITEMS), np.float32)
    weight = np.zeros((PAGES, ITEMS), np.float32)
    for row, page in enumerate(pages):
        counts = page.counts
        rows = np.flatnonzero(counts)
        if len(rows) > ITEMS:
            first = np.argsort(~page.wanted[rows], kind="stable")
            rows = rows[first[:ITEMS]]
        size = len(rows)
        part.hidden[row, :size] = page.hidden[rows]
        part.own[row, :size] = page.own.taken(rows).wide
        relevance[row, :size] = page.wanted[rows]
        weight[row, :size] = 1
    return part, relevance, weight
