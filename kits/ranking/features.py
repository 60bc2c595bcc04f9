"""The network's features of a page and a history: the same in training and in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import TableError
from palmkit.kits.ranking.events import Events
from palmkit.kits.ranking.page import Page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns, Floats, Keys

Scope: TypeAlias = Literal["any", "own"]

# The half-life of a touch's weight, in seconds.
HALF_LIVES_S = (30.0, 600.0)
# What an item and an event have in common.
LINKS = ("id", "category", "embedding", "price", "step", "next")
# Steps on the page beyond this count as this many.
FAR = 10.0
_TINY = np.float32(1e-6)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The network's inputs for one page of n items and m events; event row 0 stands for nothing.

    items: float32[n, features]; item_codes: int64[n, codes]; events: float32[1 + m, traits];
    event_codes: int64[1 + m, categories]; the codes have no columns if the scope is "any".
    links: float32[links, n, 1 + m].
    """

    items: Floats
    item_codes: Keys
    events: Floats
    event_codes: Keys
    links: Floats


@dataclass(frozen=True)
class Layout:
    """The features and their order.

    scope: "any": features by meaning only, so that a model serves any schema; "own": also one set
    for each column of the schema it was trained on. with_position: whether the server's order and
    score are seen. length: how many events are seen, the latest.
    """

    schema: Schema
    scope: Scope = "own"
    with_position: bool = True
    length: int = 100

    @property
    def features(self) -> list[tuple[str, str]]:
        """(name, group) of each column of Inputs.items; `why` reports by group."""
        found: list[tuple[str, str]] = []

        def add(group: str, *names: str) -> None:
            found.extend((f"{group}: {name}", group) for name in names)

        if self.with_position:
            add("position", "log", "inverse", "share")
            add("steps", "from last", "next", "previous", "from deepest", "known")
            add("score", "of page", "rank")
        add("price", "log", "of page", "rank", "to touched", "off touched")
        add("touches", *(f"count of {kind}" for kind in (*self.schema.events, "others")))
        add("touches", *(f"half-life {each:g} s" for each in HALF_LIVES_S))
        add("touches", "by order", "seconds", "wanted", "passed over", "last", "order")
        for which in ("mean", "best"):
            add("categories", *(f"{which} {n}" for n in ("wanted", "passed over", "last")))
        add("numbers", "mean off touched", "least off touched")
        add("embeddings", "wanted", "passed over")
        add("page", "items", "touched")
        add("history", "events", "pause")
        if self.scope == "own":
            for name in self.schema.numbers:
                add(name, "value", "of page", "to touched", "missing")
            for name in self.schema.categories:
                add(name, "wanted", "passed over", "last")
        return found

    @property
    def traits(self) -> list[str]:
        """Names of the columns of Inputs.events."""
        kinds = [*self.schema.events, "others"]
        found = ["nothing", *kinds, "wanted", "age", "order", "value", "here", "price"]
        if self.with_position:
            found += ["position", "score"]
        return found + (list(self.schema.numbers) if self.scope == "own" else [])

    @property
    def links(self) -> list[str]:
        """Names of the rows of Inputs.links."""
        found = list(LINKS if self.with_position else LINKS[:4])
        return found + (list(self.schema.categories) if self.scope == "own" else [])

    def build(
        self,
        page: Page,
        events: Events,
        now: float,
        context: Keys,
        with_events: bool = True,
    ) -> Inputs:
        """Return what the model sees, before scaling.

        now: the time, in seconds. context: int64[Schema.context], codes. with_events: whether it
        sees the events themselves, as a network does; otherwise there is the row for nothing alone,
        and the items tell what happened.
        """
        events = events if len(events) <= self.length else events.taken(slice(-self.length, None))
        return _Builder(self, page, events, now).inputs(context, with_events)


def context_codes(
    context: Mapping[str, Any] | None, schema: Schema, vocabulary: list[dict[str, int]]
) -> Keys:
    """Return codes, int64[Schema.context], 0 for missing and unknown values.

    vocabulary: of the schema's categories, then of its context.
    """
    if not schema.context:
        return np.zeros(0, np.int64)
    columns = Columns("context", [context or {}])
    texts = [columns.texts(name)[0] for name in schema.context]
    words = vocabulary[len(schema.categories) :]
    return np.array([w.get(t, 0) if t else 0 for t, w in zip(texts, words, strict=True)], np.int64)


def time_of(context: Mapping[str, Any] | None, schema: Schema) -> float | None:
    """Return the time in a context, in seconds; None if there is none.

    Raises TableError if it is no dict or the time is no number.
    """
    if context is None:
        return None
    if not isinstance(context, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TableError(f"context: expected a dict, got {type(context).__name__}")
    if context.get(schema.time) is None:
        return None
    now = float(Columns("context", [context]).numbers(schema.time)[0])
    return None if now != now else now


class _Builder:
    """One page and its history, with what several features need of them."""

    def __init__(self, layout: Layout, page: Page, events: Events, now: float) -> None:
        self.layout, self.page, self.events = layout, page, events
        self.schema = layout.schema
        count, length = len(page), len(events)
        self.ages = np.maximum(now - events.times, 0).astype(np.float32)
        # From the latest: 1, 1/2, 1/3, ... of those that wanted an item.
        wanted = events.wanted
        later = wanted[::-1].cumsum(dtype=np.float32)[::-1] - wanted
        self.order = wanted / (1 + later)
        self.passed = 1 - wanted
        same = page.ids[:, None] == events.ids
        self.same = same.astype(np.float32)
        # Row of an event's item on the page; `count` if it is not there.
        self.here = same.any(axis=0)
        self.place = np.where(self.here, same.argmax(axis=0), 0) if count else np.zeros(0, np.int64)
        touched = np.flatnonzero((wanted > 0) & (events.ids != 0))
        self.last = int(touched[-1]) if len(touched) else -1
        # Facts that an event lacks about its item may be on the page.
        known = events.measures
        if length and count:
            here = np.where(self.here[:, None], page.measures[self.place], np.float32(np.nan))
            known = np.where(np.isnan(known), here, known)
        self.event_measures = known
        measures = page.measures
        self.valid = ~np.isnan(measures)
        filled = np.where(self.valid, measures, 0)
        number = np.maximum(self.valid.sum(axis=0), 1)
        self.mean = filled.sum(axis=0) / number
        off = np.where(self.valid, measures - self.mean, 0)
        self.spread = np.sqrt((off * off).sum(axis=0) / number) + _TINY
        self.scaled = off / self.spread
        event_valid = ~np.isnan(known)
        self.event_scaled = np.clip(
            np.where(event_valid, (known - self.mean) / self.spread, 0), -FAR, FAR
        ).astype(np.float32)
        weights = self.order[:, None] * event_valid
        total = weights.sum(axis=0)
        liked = (weights * self.event_scaled).sum(axis=0) / np.maximum(total, _TINY)
        # How far each item's measures are from those of the items touched, in spreads of the page.
        off_touched = (self.scaled - liked) * (total > 0)
        self.off_touched = np.clip(np.where(self.valid, off_touched, 0), -FAR, FAR)

    def _measure(self, name: str | None) -> int | None:
        return None if name is None else self.schema.measures.index(name)

    def inputs(self, context: Keys, with_events: bool) -> Inputs:
        layout, page, events = self.layout, self.page, self.events
        count, length = len(page), len(events)
        columns: list[NDArray[Any]] = []
        if layout.with_position:
            columns += self._positions()
            columns += self._in_page(self._measure(self.schema.score))
        columns += self._prices()
        touches, order = self._touches()
        columns += touches
        by_column = self._categories()
        columns += [by_column.mean(axis=1), by_column.max(axis=1)]
        columns += self._numbers()
        columns += self._vectors()
        near = float((order > 0).sum())
        pause = float(self.ages[-1]) if length else 0.0
        facts = np.log1p(np.array([count, near, length, pause], np.float32))
        columns.append(np.broadcast_to(facts, (count, 4)))
        if layout.scope == "own":
            for name in self.schema.numbers:
                at = self.schema.measures.index(name)
                value = np.where(self.valid[:, at], page.measures[:, at], 0)
                columns += [value, self.scaled[:, at], self.off_touched[:, at]]
                columns.append(~self.valid[:, at])
            columns += [by_column[:, at] for at in range(len(self.schema.categories))]
        items = np.empty(
            (count, sum(1 if c.ndim == 1 else c.shape[1] for c in columns)), np.float32
        )
        at = 0
        for each in columns:
            width = 1 if each.ndim == 1 else each.shape[1]
            items[:, at : at + width] = each[:, None] if each.ndim == 1 else each
            at += width
        item_codes, event_codes = page.codes, events.codes
        if layout.scope == "any":
            context, item_codes, event_codes = context[:0], item_codes[:, :0], event_codes[:, :0]
        around = np.broadcast_to(context, (count, len(context)))
        if not with_events:
            return Inputs(
                items=items,
                item_codes=np.concatenate([item_codes, around], axis=1),
                events=np.zeros((1, len(layout.traits)), np.float32),
                event_codes=np.zeros((1, event_codes.shape[1]), np.int64),
                links=np.zeros((len(layout.links), count, 1), np.float32),
            )
        return Inputs(
            items=items,
            item_codes=np.concatenate([item_codes, around], axis=1),
            events=self._event_traits(),
            event_codes=np.concatenate(
                [np.zeros((1, event_codes.shape[1]), np.int64), event_codes]
            ),
            links=self._links(),
        )

    def _positions(self) -> list[NDArray[Any]]:
        places = self.page.positions
        count = len(places)
        columns: list[NDArray[Any]] = [np.log1p(places), 1 / np.maximum(places, 1), places / count]
        if self.last < 0 or not self.here.any():
            return [*columns, np.zeros((count, 5), np.float32)]
        touched = self.place[self.here & (self.events.wanted > 0)]
        deepest = places[touched].max() if len(touched) else np.float32(0)
        down = np.clip(places - deepest, -FAR, FAR)
        if not self.here[self.last]:
            zero = np.zeros(count, np.float32)
            return [*columns, zero, zero, zero, down, zero]
        steps = places - places[self.place[self.last]]
        known = np.ones(count, np.float32)
        return [*columns, np.clip(steps, -FAR, FAR), steps == 1, steps == -1, down, known]

    def _in_page(self, measure: int | None) -> list[NDArray[Any]]:
        """Return the distance from the page's mean, in spreads, and the rank, 0 least to 1."""
        count = len(self.page)
        if measure is None:
            return [np.zeros((count, 2), np.float32)]
        scaled = self.scaled[:, measure]
        return [scaled, _ranks(scaled)]

    def _prices(self) -> list[NDArray[Any]]:
        at = self._measure(self.schema.price)
        if at is None:
            return [np.zeros((len(self.page), 5), np.float32)]
        value = np.where(self.valid[:, at], self.page.measures[:, at], 0)
        off = self.off_touched[:, at]
        return [np.log1p(np.maximum(value, 0)), *self._in_page(at), off, np.abs(off)]

    def _touches(self) -> tuple[list[NDArray[Any]], Floats]:
        events = self.events
        kinds = len(self.schema.events) + 1
        weights = np.zeros((len(events), kinds + len(HALF_LIVES_S) + 4), np.float32)
        weights[np.arange(len(events)), events.kinds] = 1
        for each, half_life in enumerate(HALF_LIVES_S):
            weights[:, kinds + each] = np.exp2(self.ages * np.float32(-1 / half_life))
            weights[:, kinds + each] *= events.wanted
        weights[:, -4] = self.order
        weights[:, -3] = np.log1p(np.maximum(np.nan_to_num(events.values), 0))
        weights[:, -2] = events.wanted
        weights[:, -1] = self.passed
        sums = self.same @ weights
        order = (self.same * self.order).max(axis=1, initial=0)
        last = self.same[:, self.last] if self.last >= 0 else np.zeros(len(self.page), np.float32)
        # 1 for the item of this page that was touched last, 1/2 for the one before it, ...
        ranks = np.empty(len(order), np.float32)
        ranks[np.argsort(-order, kind="stable")] = np.arange(1, len(order) + 1)
        return [np.log1p(sums), last, (order > 0) / ranks], order

    def _categories(self) -> Floats:
        """Return shares of wanted and passed items, and the last: float32[n, columns, 3]."""
        events, page = self.events, self.page
        columns = page.categories.shape[1]
        found = np.zeros((len(page), max(columns, 1), 3), np.float32)
        self.alike = np.zeros((columns, len(page), len(events)), np.float32)
        if not len(events):
            return found
        weights = np.stack([self.order, self.passed], axis=1)
        weights = weights / np.maximum(weights.sum(axis=0), _TINY)
        categories = self._event_categories()
        for column in range(columns):
            mine, theirs = page.categories[:, column], categories[:, column]
            same = self.alike[column]
            same[:] = (mine[:, None] == theirs) & (theirs != 0)
            found[:, column, :2] = same @ weights
            if self.last >= 0:
                found[:, column, 2] = same[:, self.last]
        return found

    def _event_categories(self) -> Keys:
        """Return the categories of the events' items, filled in from the page."""
        known = self.events.categories
        missing = (known == 0) & self.here[:, None]
        if not missing.any() or not len(self.page):
            return known
        return np.where(missing, self.page.categories[self.place], known)

    def _numbers(self) -> list[NDArray[Any]]:
        first = len(self.schema.measures) - len(self.schema.numbers)
        off = np.abs(self.off_touched[:, first:])
        if not off.shape[1]:
            return [np.zeros((len(self.page), 2), np.float32)]
        return [off.mean(axis=1), off.min(axis=1)]

    def _vectors(self) -> list[NDArray[Any]]:
        vectors, events = self.page.vectors, self.events
        if not vectors.shape[1] or not len(events):
            self.cosines = np.zeros((len(self.page), len(events)), np.float32)
            return [np.zeros((len(self.page), 2), np.float32)]
        known = events.vectors
        missing = ~known.any(axis=1) & self.here
        if missing.any():
            known = np.where(missing[:, None], vectors[self.place], known)
        self.cosines = vectors @ known.T / np.float32(len(self.schema.embeddings))
        weights = np.stack([self.order, self.passed], axis=1)
        return [self.cosines @ (weights / np.maximum(weights.sum(axis=0), _TINY))]

    def _event_traits(self) -> Floats:
        events, layout = self.events, self.layout
        found = np.zeros((1 + len(events), len(layout.traits)), np.float32)
        found[0, 0] = 1
        if not len(events):
            return found
        rows = found[1:]
        rows[np.arange(len(events)), 1 + events.kinds] = 1
        at = 2 + len(self.schema.events)
        rows[:, at] = events.wanted
        rows[:, at + 1] = np.log1p(self.ages) / 10
        rows[:, at + 2] = 1 / np.arange(len(events), 0, -1)
        rows[:, at + 3] = np.log1p(np.maximum(np.nan_to_num(events.values), 0))
        rows[:, at + 4] = self.here
        for name, column in ((self.schema.price, at + 5), (self.schema.score, at + 7)):
            if name is not None and column < found.shape[1]:
                if name == self.schema.score and not layout.with_position:
                    continue
                rows[:, column] = self.event_scaled[:, self.schema.measures.index(name)]
        if layout.with_position:
            places = self.page.positions[self.place] / FAR
            rows[:, at + 6] = np.where(self.here, np.minimum(places, FAR), 0)
        if layout.scope == "own" and self.schema.numbers:
            first = len(self.schema.measures) - len(self.schema.numbers)
            rows[:, -len(self.schema.numbers) :] = self.event_scaled[:, first:]
        return found

    def _links(self) -> Floats:
        count, length = len(self.page), len(self.events)
        found = np.zeros((len(self.layout.links), count, 1 + length), np.float32)
        if not length or not count:
            return found
        rows = found[:, :, 1:]
        rows[0] = self.same
        columns = len(self.alike)
        if columns:
            rows[1] = self.alike.mean(axis=0)
        rows[2] = self.cosines
        price = self._measure(self.schema.price)
        if price is not None:
            off = np.abs(self.scaled[:, price, None] - self.event_scaled[:, price])
            rows[3] = np.exp(-off)
        if self.layout.with_position:
            places = self.page.positions
            steps = np.where(self.here, places[:, None] - places[self.place], 0)
            np.clip(steps / FAR, -1, 1, out=rows[4])
            rows[5] = (steps == 1) & self.here
        if self.layout.scope == "own" and columns:
            rows[-columns:] = self.alike
        return found


def _ranks(values: Floats) -> Floats:
    """Return ranks, float32[n]: 0 for the least to 1 for the largest; equal values share theirs."""
    ordered = np.sort(values)
    places = np.searchsorted(ordered, values) + np.searchsorted(ordered, values, "right") - 1
    return (places / (2 * max(len(values) - 1, 1))).astype(np.float32)
