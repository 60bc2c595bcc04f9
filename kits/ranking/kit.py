"""The re-ranking kit: a server's page, re-ordered at once from what the user just did."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.cached import cached
from palmkit.engine.errors import ModelError, TableError
from palmkit.engine.forks import finished
from palmkit.kits.delivered import Current, Turns
from palmkit.kits.kit import ModelSource, Open
from palmkit.kits.options import called_with, kept, made_of, same_option
from palmkit.kits.ranking.constraints import Constraints, adjusted, arrange
from palmkit.kits.ranking.events import Events, encode_events, no_events
from palmkit.kits.ranking.features import Layout, context_codes, time_of
from palmkit.kits.ranking.kinds import kind_of
from palmkit.kits.ranking.options import RerankerOptions
from palmkit.kits.ranking.page import Page, encode_page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.scorer import Scorer
from palmkit.kits.ranking.session import Context, Session
from palmkit.kits.ranking.table import Columns, Floats, Table, has_rows
from palmkit.kits.ranking.taste import own_of
from palmkit.kits.results import Ranking

if TYPE_CHECKING:
    from palmkit.kits.ranking.learning import Learner

# Items of the pages that the shipped model has a plan for.
PLANNED_ITEMS = 50
# What a session that learns may take.
MEMORY_BYTES = 5_000_000


@dataclass(frozen=True)
class Fitted:
    """A layout, the model's words for its schema, and the model."""

    layout: Layout
    vocabulary: list[dict[str, int]]
    scorer: Scorer

    @property
    def schema(self) -> Schema:
        """The meaning of the columns."""
        return self.layout.schema

    def reads_as(self, other: Fitted) -> bool:
        """Return whether encodings for one mean the same to the other."""
        return (self.layout, self.vocabulary) == (other.layout, other.vocabulary)

    @property
    def item_words(self) -> list[dict[str, int]]:
        """Codes by text, for each category."""
        return self.vocabulary[: len(self.schema.categories)]

    @cached
    def groups(self) -> dict[str, NDArray[np.int64]]:
        """The columns of each group of features."""
        found: dict[str, list[int]] = {}
        for at, (_, group) in enumerate(self.layout.features):
            found.setdefault(group, []).append(at)
        return {group: np.array(columns) for group, columns in found.items()}


@dataclass(frozen=True, repr=False, eq=False)
class RerankerArguments(RerankerOptions):
    """The arguments of Reranker."""

    model: ModelSource | None = same_option(RerankerOptions, "model")
    schema: Schema | None = same_option(RerankerOptions, "schema")


class Reranker(Open):
    """Re-orders pages of items by what a user did, in the process, in well under a millisecond.

    reranker = Reranker()
    session = reranker.session()
    session.observe({"event": "click", "id": 7, "time": 1700000000.0, "brand": "acme"})
    ranking = session.rerank(page)     # ranking.ids, best first

    One Reranker may be used by many threads at a time.
    """

    name: ClassVar[str] = "re-ranker"

    @finished
    @made_of(RerankerArguments)
    def __init__(self, options: RerankerArguments) -> None:
        """Make a re-ranker; those of the same model, threads and precision share it.

        The model may be one that `palmkit rerank train` wrote; the one shipped is a demonstration,
        trained on a simulated shop, and takes any schema.
        Raises ValueError for an option that cannot be or a schema that is not the model's,
        ModelError if the model cannot be read or is not a re-ranker.
        """
        self._options = options
        self._current = Current(options.model, "reranker", options)
        self._constraints = options.constraints or Constraints()
        self._turns = Turns([self._current]) if self._current.is_delivered else None
        if self._turns is None:
            self._adopt()
        else:
            self._turns.settle(self._adopt)

    @classmethod
    def first_dims(cls) -> Mapping[str, Sequence[Mapping[str, int]]]:
        """Return the re-ranker's dims, a page at a time, as Open.first_dims describes."""
        return {"reranker": [{"pages": 1, "count": PLANNED_ITEMS}]}

    def close(self) -> None:
        """End it; it may be called twice."""
        super().close()
        self._current.close()

    def _adopt(self) -> None:
        """Take from the model what the kit needs."""
        # What the model was opened from, for another Reranker of it.
        delivered = self._current.is_delivered
        self.source: ModelSource = self._current.name if delivered else self._current.model
        self.scorer = Scorer(self._current.model)
        try:
            layout = self.scorer.description.fitted(self._options.schema)
        except ValueError as error:
            if self._turns is None:
                raise
            raise ModelError(f"a release for another schema: {error}") from error
        self._fitted = None if layout is None else self._with(layout)

    def _in_turn(self, at_page: Callable[[], Ranking]) -> Ranking:
        """Return the ranking of a page, all of it by one model."""
        self._check_open()
        return at_page() if self._turns is None else self._turns.run(at_page, self._adopt)

    def _with(self, layout: Layout) -> Fitted:
        words = self.scorer.description.vocabulary
        if layout.scope == "any":
            words = [dict[str, int]()] * (
                len(layout.schema.categories) + len(layout.schema.context)
            )
        return Fitted(layout, words, self.scorer)

    def _fit(self, items: Table) -> Fitted:
        if self._fitted is not None:
            return self._fitted
        # What is no table is refused as such, before it may be taken for the path of a log.
        Columns("items", items)
        layout = self.scorer.description.fitted(Schema.infer(items))
        assert layout is not None
        return self._with(layout)

    @property
    def releases(self) -> Mapping[str, str]:
        """The version of the delivered model in use, by model and channel."""
        return {each.name: each.version for each in (self._current,) if each.is_delivered}

    @property
    def model(self) -> str:
        """The model's name and version."""
        return _name(self.scorer)

    @property
    def schema(self) -> Schema | None:
        """The meaning of the columns; None: it is inferred from each page."""
        return None if self._fitted is None else self._fitted.schema

    @finished
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
        Values that are missing or NaN count as unknown, categories that the model never saw as one
        more value; no items give an empty ranking. The ids of the ranking are those of the items,
        of the same type.
        Raises TableError naming row and column: a column of the schema that no item has, an id
        that is missing or comes twice, text for a number, infinity, an event later than now or of
        a kind that the model does not know (Schema.events).
        """
        self._check_open()
        if not has_rows(items):
            Columns("items", items)
            return Ranking([], np.zeros(0, np.int64), np.zeros(0, np.float32), self.model, True)

        def at_page() -> Ranking:
            fitted = self._fit(items)
            page = encode_page(items, fitted.schema, fitted.item_words)
            events = self._events(history, fitted, context)
            return self._rank(fitted, page, events, context, constraints, why)

        return self._in_turn(at_page)

    @finished
    def session(
        self,
        context: Context | None = None,
        *,
        seed: int | None = None,
        learns: bool = False,
        memory_bytes: int = MEMORY_BYTES,
    ) -> Session:
        """Return a user's visit, which remembers observed events.

        context: for every page of it, unless a page has its own. seed: of its exploration.
        learns: also remember the pages, in at most memory_bytes with all that learning needs, so
        that Session.learn can fit the model's last layers to this user; the first such session of a
        re-ranker makes that ready, some 100 ms.
        Raises UnsupportedError if the model cannot learn, ValueError for too little memory.
        """
        self._check_open()
        # Checkers know this file by two names, and so its classes as two.
        this: Any = self
        return Session(this, context, seed, learns, memory_bytes)

    def _events(self, history: Table, fitted: Fitted, context: Context | None) -> Events:
        if not has_rows(history):
            return no_events(fitted.schema)
        found = encode_events(history, fitted.schema, fitted.item_words)
        now = time_of(context, fitted.schema)
        if now is not None and (found.times > now).any():
            row = int((found.times > now).argmax())
            raise TableError(
                f"history: row {row}, column {fitted.schema.time}: expected no event later than "
                f"the context's {now:.15g}: {found.times[row]:.15g}"
            )
        return no_events(fitted.schema).joined(found, fitted.layout.length)

    def _rank(
        self,
        fitted: Fitted,
        page: Page,
        events: Events,
        context: Context | None,
        constraints: Constraints | None,
        why: bool,
        random: np.random.Generator | None = None,
        learner: Learner | None = None,
    ) -> Ranking:
        """Rank a page.

        learner: its weights are used, and it remembers the page.
        """
        layout = fitted.layout
        rules = constraints or self._constraints
        now = time_of(context, fitted.schema)
        if now is None:
            now = float(events.times[-1]) if len(events) else time.time()
        is_own = learner is not None and learner.weights is not None
        cold = self._options.cold_start == "server" and not len(events) and not is_own
        reasons: list[dict[str, float]] | None = None
        scores, last, liked = _server_scores(page), None, None
        if not cold or learner is not None:
            codes = context_codes(context, fitted.schema, fitted.vocabulary)
            inputs = layout.build(page, events, now, codes, fitted.scorer.sees_events)
            if learner is None:
                scores = fitted.scorer.score(inputs, layout.length)
            else:
                plain, hidden = fitted.scorer.infer(inputs, layout.length)
                own = own_of(page, fitted.schema, learner.words)
                if is_own:
                    last, liked = learner.last(own), learner.liked(own)
                    plain = last(hidden[None])[0]
                scores = scores if cold else plain
                learner.show(page.ids, hidden, own)
            if why and not cold:
                reasons = fitted.scorer.contributions(
                    inputs, layout.length, fitted.groups, last, liked
                )
        if why and cold:
            reasons = [dict[str, float]()] * len(page)
        final = adjusted(scores, page, rules, now)
        if rules.exploration is not None and random is None:
            random = np.random.default_rng(rules.exploration.seed)
        order, chances = arrange(
            final, page, fitted.schema, rules, _exposures(page, events, fitted.schema), random
        )
        return Ranking(
            ids=[page.given[row] for row in order.tolist()],
            rows=order,
            scores=final[order].astype(np.float32),
            model=_name(fitted.scorer),
            cold=cold,
            propensities=chances,
            why=None if reasons is None else [reasons[row] for row in order.tolist()],
        )


def _name(scorer: Scorer) -> str:
    described = scorer.description
    return f"{described.name} {described.version}".strip()


def _server_scores(page: Page) -> Floats:
    """Return scores that fall with the server's place as clicks do, about 1 / place: float32[n]."""
    places = np.empty(len(page), np.float32)
    places[np.argsort(page.positions, kind="stable")] = np.arange(1, len(page) + 1)
    return -np.log(places)


def _exposures(page: Page, events: Events, schema: Schema) -> NDArray[np.float64]:
    """Return how often the history has each item's exposure, float64[n]."""
    kind = kind_of("exposure", schema.events)
    if kind is None:
        return np.zeros(len(page))
    seen = events.ids[events.kinds == schema.events.index(kind)]
    return np.asarray((page.ids[:, None] == seen).sum(axis=1), np.float64)


@dataclass(frozen=True, repr=False, eq=False)
class RerankerCall(RerankerOptions):
    """The arguments of rerank."""

    items: Table
    history: Table = ()
    context: Context | None = None


@called_with(RerankerCall)
def rerank(call: RerankerCall) -> Ranking:
    """Re-order a page of items by what the user did, with the demonstration model.

    ranking = kits.rerank(items, history); ranking.ids

    items, history, context and the errors are those of Reranker.rerank, the options those of
    Reranker; without a schema, what the columns mean is inferred (Schema.infer). A model trained on
    one's own log ranks better.
    """
    kit = kept(Reranker, RerankerOptions, call)
    return kit.rerank(call.items, call.history, call.context)
