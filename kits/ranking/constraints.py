"""Constraints on an order besides the scores: pins, boosts, variety, freshness, exploration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.options import between, one_of, whole
from palmkit.kits.ranking.page import Page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Floats, Keys, keys, text_of

_Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Boost:
    """Adds `amount` to the score of items whose `column` is `value`: 0.7 doubles the odds."""

    column: str
    value: str | int
    amount: float


@dataclass(frozen=True)
class Diversity:
    """Variety near the top.

    method: "mmr" takes the best minus its similarity to those above (Carbonell and Goldstein,
    1998), "dpp" the likeliest set of a determinantal point process, greedily (Chen et al., 2018).
    strength: 0 (none) to 1 (nothing else counts). columns: categories or embeddings of the schema
    that make items similar; none: all of them. places: from the top; below them the order is that
    of the scores.
    """

    method: Literal["mmr", "dpp"] = "mmr"
    strength: float = 0.3
    columns: tuple[str, ...] = ()
    places: int = 50

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        one_of("diversity method", self.method, ("mmr", "dpp"))
        between("diversity strength", self.strength, 0, 1)
        whole("diversity places", self.places, 1)


@dataclass(frozen=True)
class Freshness:
    """Adds `weight` to the score of an item made now, half as much after each `half_life_s`.

    column: when it was made, in seconds; missing: no bonus; in the future: the whole.
    """

    column: str
    half_life_s: float
    weight: float = 0.5

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid half-life."""
        if not self.half_life_s > 0:
            raise ValueError(f"half_life_s: expected more than 0, got {self.half_life_s!r}")


@dataclass(frozen=True)
class Exploration:
    """Sometimes shows another item than the best, so that a log tells what would have happened.

    method: "epsilon": a place goes with probability `rate` to any remaining item, each equally
    likely; "thompson": to the best after noise of the standard deviation `rate` on each score, less
    the more often the history has an item's exposure: rate / sqrt(1 + exposures). places: from the
    top; below them the order is that of the scores. seed: makes it repeatable.
    """

    method: Literal["epsilon", "thompson"] = "epsilon"
    rate: float = 0.1
    places: int = 10
    seed: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid option."""
        one_of("exploration method", self.method, ("epsilon", "thompson"))
        between("exploration rate", self.rate, 0, 1 if self.method == "epsilon" else math.inf)
        whole("exploration places", self.places, 1)


@dataclass(frozen=True)
class Constraints:
    """Constraints on an order besides the scores.

    pinned: item id to place, from 1: it stands there whatever its score; an id that is not on the
    page is ignored, a place beyond its end is its end. 7 and "7" are the same id.
    """

    pinned: Mapping[str, int] | Mapping[int, int] = field(default_factory=dict[str, int])
    boosts: tuple[Boost, ...] = ()
    diversity: Diversity | None = None
    freshness: Freshness | None = None
    exploration: Exploration | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid place, or one given to two items."""
        taken: dict[int, str | int] = {}
        for name, place in self.pinned.items():
            whole(f"pinned {name!r}", place, 1)
            if place in taken:
                raise ValueError(f"pinned: {taken[place]!r} and {name!r} both at place {place}")
            taken[place] = name


class Arranged(NamedTuple):
    """An order: int64[n], rows of the page, best first.

    propensities: float64[n] of each place.
    """

    order: NDArray[np.int64]
    propensities: _Doubles | None


def adjusted(scores: Floats, page: Page, constraints: Constraints, now: float) -> _Doubles:
    """Return the scores with boosts and freshness, float64[n].

    Raises TableError if a column that they name is missing.
    """
    found = scores.astype(np.float64)
    for boost in constraints.boosts:
        page.columns.require(boost.column)
        value = text_of(boost.value)
        texts = page.columns.texts(boost.column)
        found += boost.amount * np.array([text == value for text in texts], np.float64)
    fresh = constraints.freshness
    if fresh is not None:
        page.columns.require(fresh.column)
        ages = np.maximum(now - page.columns.numbers(fresh.column), 0)
        found += fresh.weight * np.nan_to_num(np.exp2(-ages / fresh.half_life_s))
    return found


def arrange(
    scores: _Doubles,
    page: Page,
    schema: Schema,
    constraints: Constraints,
    exposures: _Doubles,
    random: np.random.Generator | None,
) -> Arranged:
    """Return the order of a page.

    exposures: float64[n], how often the history has each. random: for exploration.
    """
    count = len(scores)
    explore, diverse = constraints.exploration, constraints.diversity
    if diverse is not None and diverse.strength == 0:
        diverse = None
    by_name = sorted((text_of(name) or "", place) for name, place in constraints.pinned.items())
    pins = {min(place, count) - 1: name for name, place in by_name}
    rows = {name: row for row, name in enumerate(page.names)} if pins else {}
    pinned = {place: rows[name] for place, name in pins.items() if name in rows}
    # By score; where scores are equal, as the server had it.
    best = np.lexsort((page.positions, -scores))
    if explore is None and diverse is None and not pinned:
        return Arranged(best, None)
    free = np.ones(count, np.bool_)
    free[list(pinned.values())] = False
    variety = None if diverse is None else _Variety(diverse, page, schema, scores)
    searched = min(
        count,
        max(0 if explore is None else explore.places, 0 if diverse is None else diverse.places),
    )
    order = np.zeros(count, np.int64)
    chances = np.ones(count, np.float64)
    place = 0
    while place < count:
        if place in pinned:
            order[place] = pinned[place]
            if variety is not None:
                variety.add(pinned[place])
        elif place < searched:
            # In the order of `best`, so that argmax takes the server's first of equals.
            left = best[free[best]]
            gains = scores[left] if variety is None else variety.gains(left)
            at = int(gains.argmax())
            if explore is not None and random is not None and place < explore.places:
                at, chances[place] = _explored(explore, gains, exposures[left], random)
            order[place] = left[at]
            free[left[at]] = False
            if variety is not None:
                variety.add(int(left[at]))
        else:
            break
        place += 1
    rest = iter(best[free[best]])
    for each in range(place, count):
        order[each] = pinned[each] if each in pinned else next(rest)
    return Arranged(order, None if explore is None else chances)


class _Variety:
    """How much each remaining item adds to those above."""

    def __init__(self, diversity: Diversity, page: Page, schema: Schema, scores: _Doubles) -> None:
        """Start without items; raise ValueError for a column that the schema does not have."""
        self._mmr = diversity.method == "mmr"
        self._strength = diversity.strength
        spread = float(scores.max() - scores.min()) if len(scores) else 0.0
        self._worth = (scores - scores.min()) / (spread or 1.0)
        names = diversity.columns or (*schema.categories, *schema.embeddings)
        if not names:
            raise ValueError("diversity: the schema has no category and no embedding")
        self._categories: list[Keys] = []
        self._vectors: list[Floats] = []
        begin = {name: at for name, at in zip(schema.embeddings, _begins(schema), strict=True)}
        for name in names:
            if name in schema.categories:
                self._categories.append(page.categories[:, schema.categories.index(name)])
            elif name in schema.embeddings:
                at = begin[name]
                self._vectors.append(page.vectors[:, at : at + schema.embeddings[name]])
            elif name in page.columns:
                self._categories.append(keys(page.columns.texts(name)))
            else:
                raise ValueError(f"diversity: no column {name!r}")
        count = len(scores)
        self._likest = np.zeros(count)
        # Of the greedy search for the likeliest set: Cholesky rows and what is left of each item.
        self._rows: list[_Doubles] = []
        self._left = np.ones(count)

    def _alike(self, row: int) -> _Doubles:
        """Return the similarity of each item to one, float64[n], 0..1."""
        parts = [(each == each[row]) & (each != 0) for each in self._categories]
        parts += [(1 + each @ each[row]) / 2 for each in self._vectors]
        found = np.sum(parts, axis=0, dtype=np.float64) / len(parts)
        return np.asarray(found, np.float64)

    def add(self, row: int) -> None:
        """Add an item to those above."""
        alike = self._alike(row)
        if self._mmr:
            np.maximum(self._likest, alike, out=self._likest)
            return
        # Far enough from rank one that every item keeps some volume.
        alike *= 0.95
        alike[row] = 1
        made = sum((each[row] * each for each in self._rows), start=np.zeros(len(alike)))
        made = (alike - made) / math.sqrt(self._left[row])
        self._rows.append(made)
        self._left = np.maximum(self._left - made * made, 1e-3)

    def gains(self, rows: NDArray[np.int64]) -> _Doubles:
        """Return what each row would add, float64[rows]."""
        worth = self._worth[rows]
        if self._mmr:
            return np.asarray((1 - self._strength) * worth - self._strength * self._likest[rows])
        return np.asarray((1 - self._strength) * worth + self._strength * np.log(self._left[rows]))


def _begins(schema: Schema) -> list[int]:
    lengths = [0, *schema.embeddings.values()]
    return [int(each) for each in np.cumsum(lengths)[:-1]]


def _explored(
    explore: Exploration, gains: _Doubles, exposures: _Doubles, random: np.random.Generator
) -> tuple[int, float]:
    """Return the item for a place, and its probability."""
    count = len(gains)
    if explore.method == "epsilon":
        best = int(gains.argmax())
        at = int(random.integers(count)) if random.random() < explore.rate else best
        return at, explore.rate / count + (1 - explore.rate) * (at == best)
    spread = explore.rate / np.sqrt(1 + exposures)
    if explore.rate == 0:
        return int(gains.argmax()), 1.0
    at = int((gains + spread * random.standard_normal(count)).argmax())
    return at, _chance_of_largest(at, gains, spread)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)


def _chance_of_largest(at: int, means: _Doubles, spreads: _Doubles) -> float:
    """Return the probability that a normal variable is the largest, by Gauss-Hermite quadrature."""
    others = np.arange(len(means)) != at
    reached = means[at] + spreads[at] * _NODES[:, None]
    below = _normal_share((reached - means[others]) / spreads[others]).prod(axis=1)
    chance = float(_WEIGHTS @ below / _WEIGHTS.sum())
    return min(max(chance, 1e-6), 1.0)


def _normal_share(values: _Doubles) -> _Doubles:
    """Return the normal CDF of each value (Abramowitz and Stegun 7.1.26, 1.5e-7)."""
    x = np.abs(values) / math.sqrt(2)
    t = 1 / (1 + 0.3275911 * x)
    series = t * (
        0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))
    )
    tail = series * np.exp(-x * x) / 2
    return np.where(values > 0, 1 - tail, tail)
