"""The re-ranking kit: a server's page, re-ordered at once from what the user just did."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import ModelError, TableError
from palmkit.kits.delivered import Current, Turns, Unfit
from palmkit.kits.kit import ModelSource, one_of
from palmkit.kits.ranking.constraints import Constraints, adjusted, arrange
from palmkit.kits.ranking.events import Events, encode_events, no_events
from palmkit.kits.ranking.features import Inputs, Layout, context_codes
from palmkit.kits.ranking.page import Page, completed, encode_page
from palmkit.kits.ranking.result import Ranking
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.scorer import Scorer
from palmkit.kits.ranking.table import Columns, Floats, Table

Context: TypeAlias = Mapping[str, Any]
COLD_STARTS = ("server", "model")


@dataclass(frozen=True)
class _Fitted:
    """A layout, the model's words for its schema, and the model."""

    layout: Layout
    vocabulary: list[dict[str, int]]
    scorer: Scorer

    @property
    def schema(self) -> Schema:
        return self.layout.schema

    def reads_as(self, other: _Fitted) -> bool:
        """Whether what was encoded for one says the same to the other."""
        return (self.layout, self.vocabulary) == (other.layout, other.vocabulary)

    @property
    def item_words(self) -> list[dict[str, int]]:
        return self.vocabulary[: len(self.schema.categories)]

    @cached_property
    def groups(self) -> dict[str, NDArray[np.int64]]:
        """The columns of each group of features."""
        found: dict[str, list[int]] = {}
        for at, (_, group) in enumerate(self.layout.features):
            found.setdefault(group, []).append(at)
        return {group: np.array(columns) for group, columns in found.items()}


class Reranker:
    """Re-orders pages of items by what a user did, in the process, in well under a millisecond.

    reranker = Reranker()
    session = reranker.session()
    session.observe({"event": "click", "id": 7, "time": 1700000000.0, "brand": "acme"})
    ranking = session.rerank(page)     # ranking.ids, best first

    One Reranker may be used by many threads at a time.
    """

    def __init__(
        self,
        model: ModelSource | None = None,
        schema: Schema | None = None,
        *,
        constraints: Constraints | None = None,
        cold_start: str = "server",
        threads: int = 1,
    ) -> None:
        """Make a re-ranker; those of the same model and threads share it.

        model: a path of a model that `palmkit rerank train` wrote, "reranker@stable" for the newest
        that is delivered (see palmkit.delivery), or an open one; None: the demonstration model,
        which was trained on a simulated shop and takes any schema.
        schema: what the columns mean; None: that of the model, or, if it takes any, what
        Schema.infer says of each page.
        constraints: that hold for every page unless a call has its own.
        cold_start: without any event, "server": its order, with constraints; "model": the
        network's.
        threads: that one run of the network uses.
        Raises ValueError for an option that cannot be or a schema that is not the model's,
        ModelError if the model cannot be read or is not a re-ranker.
        """
        one_of("cold_start", cold_start, COLD_STARTS)
        self._current = Current(model, "reranker", threads, "high")
        self._wanted = schema
        self._cold_start = cold_start
        self._constraints = constraints or Constraints()
        self._turns = Turns([self._current]) if self._current.is_delivered else None
        if self._turns is None:
            self._adopt()
        else:
            self._turns.settle(self._adopt)

    def _adopt(self) -> None:
        """Take from the model what the kit has of it."""
        # What the model was opened from, for another Reranker of it.
        delivered = self._current.is_delivered
        self.source: ModelSource = self._current.name if delivered else self._current.model
        self.scorer = Scorer(self._current.model)
        try:
            layout = self.scorer.description.fitted(self._wanted)
        except ValueError as error:
            if self._turns is None:
                raise
            raise ModelError(f"a release for another schema: {error}") from error
        self._fitted = None if layout is None else self._with(layout)

    def _in_turn(self, at_page: Callable[[], Ranking]) -> Ranking:
        """The ranking of a page, all of it by one model."""
        return at_page() if self._turns is None else self._turns.look(at_page, self._adopt)

    def _with(self, layout: Layout) -> _Fitted:
        words = self.scorer.description.vocabulary
        if layout.scope == "any":
            words = [dict[str, int]()] * (
                len(layout.schema.categories) + len(layout.schema.context)
            )
        return _Fitted(layout, words, self.scorer)

    def _fit(self, items: Table) -> _Fitted:
        if self._fitted is not None:
            return self._fitted
        layout = self.scorer.description.fitted(Schema.infer(items))
        assert layout is not None
        return self._with(layout)

    @property
    def releases(self) -> Mapping[str, str]:
        """The version of the delivered model that it uses now, by model and channel."""
        return {each.name: each.version for each in (self._current,) if each.is_delivered}

    @property
    def model(self) -> str:
        """The model's name and version."""
        return _name(self.scorer)

    @property
    def schema(self) -> Schema | None:
        """What the columns mean; None: it is inferred of each page."""
        return None if self._fitted is None else self._fitted.schema

    def rerank(
        self,
        items: Table,
        history: Table = (),
        context: Context | None = None,
        *,
        constraints: Constraints | None = None,
        why: bool = False,
    ) -> Ranking:
        """Re-order a page.

        items: a list of dicts, a dict of columns, a pandas.DataFrame or a pyarrow.Table, a row an
        item, in the server's order unless the schema has a position.
        history: a table of events in any order, of which the latest count (100 for the model
        shipped): kind, time and id, and what else is known of the item.
        context: of the page: the schema's context columns and, in its time column, the time now,
        in seconds; left out, now is the time of the last event.
        why: also say what each score owes to which features; takes a run for each group of them.
        Values that are missing or NaN count as unknown, categories and kinds of events that the
        model never saw as one more value; no items give an empty ranking.
        Raises TableError naming row and column: a column of the schema that no item has, an id
        that is missing or comes twice, text for a number, infinity, an event later than now.
        """
        if not _any(items):
            Columns("items", items)
            return Ranking([], np.zeros(0, np.int64), np.zeros(0, np.float32), self.model, True)

        def at_page() -> Ranking:
            fitted = self._fit(items)
            page = encode_page(items, fitted.schema, fitted.item_words)
            events = self._events(history, fitted, context)
            return self._rank(fitted, page, events, context, constraints, why, None)

        return self._in_turn(at_page)

    def session(self, context: Context | None = None, *, seed: int | None = None) -> Session:
        """A user's visit, which remembers what was observed.

        context: for every page of it, unless a page has its own. seed: of its exploration.
        """
        return Session(self, context, seed)

    def _events(self, history: Table, fitted: _Fitted, context: Context | None) -> Events:
        if not _any(history):
            return no_events(fitted.schema)
        found = encode_events(history, fitted.schema, fitted.item_words)
        now = _time_of(context, fitted.schema)
        if now is not None and (found.times > now).any():
            row = int((found.times > now).argmax())
            raise TableError(
                f"history: row {row}, column {fitted.schema.time}: expected no event later than "
                f"the context's {now:.15g}: {found.times[row]:.15g}"
            )
        return no_events(fitted.schema).joined(found, fitted.layout.length)

    def _rank(
        self,
        fitted: _Fitted,
        page: Page,
        events: Events,
        context: Context | None,
        constraints: Constraints | None,
        why: bool,
        random: np.random.Generator | None,
    ) -> Ranking:
        layout = fitted.layout
        rules = constraints or self._constraints
        now = _time_of(context, fitted.schema)
        if now is None:
            now = float(events.times[-1]) if len(events) else time.time()
        cold = self._cold_start == "server" and not len(events)
        reasons: list[dict[str, float]] | None = None
        if cold:
            scores = _server_scores(page)
            reasons = [dict[str, float]()] * len(page) if why else None
        else:
            codes = context_codes(context, fitted.schema, fitted.vocabulary)
            inputs = layout.build(page, events, now, codes)
            scores = fitted.scorer.score(inputs, layout.length)
            if why:
                reasons = fitted.scorer.contributions(inputs, layout.length, fitted.groups)
        final = adjusted(scores, page, rules, now)
        if rules.exploration is not None and random is None:
            random = np.random.default_rng(rules.exploration.seed)
        order, chances = arrange(
            final, page, fitted.schema, rules, _exposures(page, events, fitted.schema), random
        )
        return Ranking(
            ids=[page.names[row] for row in order.tolist()],
            rows=order,
            scores=final[order].astype(np.float32),
            model=_name(fitted.scorer),
            cold=cold,
            propensities=chances,
            why=None if reasons is None else [reasons[row] for row in order.tolist()],
        )


class Session:
    """What one user does, encoded as it happens; one caller at a time, others wait.

    Events of items that the last page showed need only their id, kind and time. It ends with the
    model that it began with; should that be a release that fails, the one before goes on with what
    was observed, or anew if it has other words.
    """

    def __init__(self, reranker: Reranker, context: Context | None, seed: int | None) -> None:
        """As Reranker.session makes it."""
        self._reranker = reranker
        self._context = context
        self._seed = seed
        self._lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Forget what was observed."""
        with self._lock:
            self._fitted = self._reranker._fitted  # pyright: ignore[reportPrivateUsage]
            self._given_back: _Fitted | None = None
            self._events: Events | None = None
            self._page: Page | None = None
            self._waiting: list[Any] = []
            self._random = None if self._seed is None else np.random.default_rng(self._seed)

    def inputs(self, items: Table, context: Context | None = None) -> tuple[Inputs, int]:
        """What the network would see of a page now, and of how many events at most.

        What learning from a session needs; nothing changes. The page must have items.
        """
        with self._lock:
            fitted = self._fit(items)
            page = encode_page(items, fitted.schema, fitted.item_words)
            events = no_events(fitted.schema) if self._events is None else self._events
            given = context if context is not None else self._context
            now = _time_of(given, fitted.schema)
            if now is None:
                now = float(events.times[-1]) if len(events) else time.time()
            codes = context_codes(given, fitted.schema, fitted.vocabulary)
            return fitted.layout.build(page, events, now, codes), fitted.layout.length

    def _fit(self, items: Table) -> _Fitted:
        if self._fitted is None:
            self._fitted = self._reranker._fit(items)  # pyright: ignore[reportPrivateUsage]
            if self._given_back is not None and not self._fitted.reads_as(self._given_back):
                # What was observed is known in the words of a model that is there no more.
                self._events = self._page = None
            self._given_back = None
            for table in self._waiting:
                self._add(table, self._fitted)
            self._waiting = []
        return self._fitted

    def __len__(self) -> int:
        """How many events are remembered."""
        with self._lock:
            return (0 if self._events is None else len(self._events)) + len(self._waiting)

    def observe(self, event: Mapping[str, Any] | Table) -> None:
        """Remember an event, or a table of them.

        Raises TableError naming row and column for what is not an event.
        """
        table: Table = [event] if _is_event(event) else event
        with self._lock:
            if self._fitted is None:
                # A model for any schema, before the first page: the page will say what they mean.
                encode_events(table, Schema(), [])
                self._waiting.append(table)
                return
            self._add(table, self._fitted)

    def _add(self, table: Table, fitted: _Fitted) -> None:
        events = encode_events(table, fitted.schema, fitted.item_words)
        if self._page is not None:
            events = completed(events, self._page)
        known = no_events(fitted.schema) if self._events is None else self._events
        self._events = known.joined(events, fitted.layout.length)

    def rerank(
        self,
        items: Table,
        context: Context | None = None,
        *,
        constraints: Constraints | None = None,
        why: bool = False,
    ) -> Ranking:
        """Re-order a page; the arguments are those of Reranker.rerank."""
        with self._lock:
            if not _any(items):
                return self._reranker.rerank(items)
            return self._reranker._in_turn(  # pyright: ignore[reportPrivateUsage]
                lambda: self._at_page(items, context, constraints, why)
            )

    def _at_page(
        self, items: Table, context: Context | None, constraints: Constraints | None, why: bool
    ) -> Ranking:
        fitted = self._fit(items)
        page = encode_page(items, fitted.schema, fitted.item_words)
        events = no_events(fitted.schema) if self._events is None else self._events
        given = context if context is not None else self._context
        now = _time_of(given, fitted.schema)
        if now is not None and len(events) and events.times[-1] > now:
            raise TableError(
                f"session: row {len(events) - 1}, column {fitted.schema.time}: expected no "
                f"event later than the context's {now:.15g}: {events.times[-1]:.15g}"
            )
        try:
            ranking = self._reranker._rank(  # pyright: ignore[reportPrivateUsage]
                fitted, page, events, given, constraints, why, self._random
            )
        except Unfit:
            self._given_back, self._fitted = self._fitted, None
            raise
        self._page = page
        return ranking


def _name(scorer: Scorer) -> str:
    described = scorer.description
    return f"{described.name} {described.version}".strip()


def _any(table: Table) -> bool:
    """Whether a table has rows; what is no table is left to Columns."""
    if table is None:
        return False
    if isinstance(table, Mapping):
        columns: list[Any] = [*table.values()]
        return any(len(column) for column in columns if hasattr(column, "__len__"))
    return not hasattr(table, "__len__") or len(table) > 0


def _is_event(event: Any) -> bool:
    """One event, and not a dict of columns."""
    if not isinstance(event, Mapping):
        return False
    found: dict[str, Any] = {**event}
    values = [found.get(name) for name in ("event", "time", "id")]
    return not any(isinstance(value, list | tuple | np.ndarray) for value in values)


def _time_of(context: Context | None, schema: Schema) -> float | None:
    if context is None or context.get(schema.time) is None:
        return None
    now = float(Columns("context", [context]).numbers(schema.time)[0])
    return None if now != now else now


def _server_scores(page: Page) -> Floats:
    """float32[n]: falling with the server's place as clicks do, about as 1 / place."""
    places = np.empty(len(page), np.float32)
    places[np.argsort(page.positions, kind="stable")] = np.arange(1, len(page) + 1)
    return -np.log(places)


def _exposures(page: Page, events: Events, schema: Schema) -> NDArray[np.float64]:
    """float64[n]: how often the history has each item's exposure."""
    if "exposure" not in schema.events:
        return np.zeros(len(page))
    seen = events.ids[events.kinds == schema.events.index("exposure")]
    return np.asarray((page.ids[:, None] == seen).sum(axis=1), np.float64)


@lru_cache(maxsize=1)
def _reranker() -> Reranker:
    return Reranker()


def rerank(items: Table, history: Table = (), context: Context | None = None) -> Ranking:
    """Re-order a page of items by what the user did, with the demonstration model.

    ranking = kits.rerank(items, history); ranking.ids

    The arguments and errors are those of Reranker.rerank; what the columns mean is inferred
    (Schema.infer). A model trained on one's own log ranks better: Reranker(model=...).
    """
    return _reranker().rerank(items, history, context)
