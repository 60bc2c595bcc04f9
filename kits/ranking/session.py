"""A user's visit: observed events, and what was learned from them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from palmkit.engine.errors import TableError, UnsupportedError
from palmkit.engine.forks import finished, renewed_in_children
from palmkit.kits.delivered import Unfit
from palmkit.kits.ranking.events import Events, encode_events, no_events
from palmkit.kits.ranking.features import Inputs, context_codes, time_of
from palmkit.kits.ranking.page import Page, completed, encode_page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Table, has_rows
from palmkit.kits.results import Ranking

if TYPE_CHECKING:
    from palmkit.kits.ranking.constraints import Constraints
    from palmkit.kits.ranking.kit import Fitted, Reranker
    from palmkit.kits.ranking.learning import Learned, Learner

Context: TypeAlias = Mapping[str, Any]


class Session:
    """What one user does, encoded as it happens; one caller at a time, others wait.

    Events of items that the last page showed need only their id, kind and time. It ends with the
    model that it began with; should that be a release that fails, the one before goes on with what
    was observed, or anew if it has other words; what was learned is gone then.
    """

    def __init__(
        self,
        reranker: Reranker,
        context: Context | None,
        seed: int | None,
        learns: bool,
        memory_bytes: int,
    ) -> None:
        """Start a session with the arguments of Reranker.session."""
        self._reranker = reranker
        self._context = context
        self._seed = seed
        self._learns = learns
        self._memory_bytes = memory_bytes
        renewed_in_children(self, Session._renew)
        self.reset()

    def _renew(self) -> None:
        """Make new locks in a forked child."""
        self._lock = threading.RLock()

    def reset(self) -> None:
        """Forget what was observed and learned."""
        with self._lock:
            self._fitted = self._reranker._fitted  # pyright: ignore[reportPrivateUsage]
            self._given_back: Fitted | None = None
            self._events: Events | None = None
            self._page: Page | None = None
            self._waiting: list[Any] = []
            self._random = None if self._seed is None else np.random.default_rng(self._seed)
            self._learner: Learner | None = None
            if self._fitted is not None:
                self._prepare(self._fitted)

    def _prepare(self, fitted: Fitted) -> None:
        """Make learning ready, where the session is to learn."""
        if self._learns:
            from palmkit.kits.ranking.learning import Learner
            from palmkit.kits.ranking.taste import taste_width

            head = fitted.scorer.head(taste_width(fitted.schema))
            self._learner = Learner(head, self._memory_bytes)

    @finished
    def inputs(self, items: Table, context: Context | None = None) -> tuple[Inputs, int]:
        """Return the network's inputs for a page now, and the most events it would see.

        It is for learning from a session, and changes nothing. The page must have items.
        """
        with self._lock:
            fitted = self._fit(items)
            page = encode_page(items, fitted.schema, fitted.item_words)
            events = no_events(fitted.schema) if self._events is None else self._events
            given = context if context is not None else self._context
            now = time_of(given, fitted.schema)
            if now is None:
                now = float(events.times[-1]) if len(events) else time.time()
            codes = context_codes(given, fitted.schema, fitted.vocabulary)
            return fitted.layout.build(page, events, now, codes), fitted.layout.length

    def _fit(self, items: Table) -> Fitted:
        if self._fitted is None:
            self._fitted = self._reranker._fit(items)  # pyright: ignore[reportPrivateUsage]
            if self._given_back is not None and not self._fitted.reads_as(self._given_back):
                # The observed events are encoded with the words of a model that is gone.
                self._events = self._page = None
            self._given_back = None
            self._prepare(self._fitted)
            for table in self._waiting:
                self._add(table, self._fitted)
            self._waiting = []
        return self._fitted

    def __len__(self) -> int:
        """Return how many events are remembered."""
        with self._lock:
            return (0 if self._events is None else len(self._events)) + len(self._waiting)

    @finished
    def observe(self, event: Mapping[str, Any] | Table) -> None:
        """Remember an event, or a table of them.

        Raises TableError naming row and column for what is not an event.
        """
        table: Table = [event] if _is_event(event) else event
        with self._lock:
            if self._fitted is None:
                # A model for any schema, before the first page: the page will tell their meaning.
                known = self._reranker.scorer.description.layout.schema
                encode_events(table, Schema(events=known.events), [])
                self._waiting.append(table)
                return
            self._add(table, self._fitted)

    def _add(self, table: Table, fitted: Fitted) -> None:
        events = encode_events(table, fitted.schema, fitted.item_words)
        if self._page is not None:
            events = completed(events, self._page)
        if self._learner is not None:
            self._learner.note(events)
        known = no_events(fitted.schema) if self._events is None else self._events
        self._events = known.joined(events, fitted.layout.length)

    @finished
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
            if not has_rows(items):
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
        now = time_of(given, fitted.schema)
        if now is not None and len(events) and events.times[-1] > now:
            raise TableError(
                f"session: row {len(events) - 1}, column {fitted.schema.time}: expected no "
                f"event later than the context's {now:.15g}: {events.times[-1]:.15g}"
            )
        try:
            ranking = self._reranker._rank(  # pyright: ignore[reportPrivateUsage]
                fitted, page, events, given, constraints, why, self._random, self._learner
            )
        except Unfit:
            self._given_back, self._fitted, self._learner = self._fitted, None, None
            raise
        self._page = page
        return ranking

    @finished
    def learn(self, time_s: float = 0.05) -> Learned:
        """Fit the model's last layers to this user, by the pages shown and what was done with them.

        Three of four pages with a choice are learned from (ListNet's loss, Adam), every fourth is
        held back, always the same ones. The new weights are kept only if these have a lower cross
        entropy and no lower NDCG@10 by them; `undo` goes back. Nothing leaves the process.
        time_s: for the whole call; it ends before its last step would not fit.
        Returns what came of it; with fewer than 12 pages nothing is tried.
        Raises UnsupportedError for a session that was not made with learns=True, ValueError for a
        time that is not above 0.
        """
        with self._lock:
            if self._learner is None and self._learns:
                from palmkit.kits.ranking.learning import NOTHING_SHOWN

                return NOTHING_SHOWN
            return self._own("learn").learn(time_s)

    @finished
    def undo(self) -> bool:
        """Go back to the weights before those that `learn` kept last.

        Returns False if there are none, as after a second call.
        """
        with self._lock:
            return self._learner is not None and self._learner.undo()

    @finished
    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Write what was learned and the pages to learn from, whole or not at all.

        key: 32 secret bytes: the file is encrypted (AES-256-GCM) and cannot be changed unnoticed;
        without one it can be read, though no ids or texts are in it. Events are not saved.
        Raises UnsupportedError for a session that learns nothing, ValueError for another key,
        OSError.
        """
        from palmkit.kits.ranking.learned_file import write

        with self._lock:
            write(path, self._own("save"), key)

    @finished
    def load(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Go on from what `save` wrote, with the same model and schema.

        Raises ModelError for what is no such file, was changed, is of another model or schema or
        was encrypted with another key (the session then stays as it was); else as save.
        """
        from palmkit.kits.ranking.learned_file import read

        with self._lock:
            read(path, self._own("load"), key)

    def _own(self, what: str) -> Learner:
        if self._learner is None:
            raise UnsupportedError(
                f"{what}: expected a session of Reranker.session(learns=True) of which the schema "
                "is known: give the Reranker one, or show a page first"
            )
        return self._learner


def _is_event(event: Any) -> bool:
    """Return whether it is one event, and not a dict of columns."""
    if not isinstance(event, Mapping):
        return False
    found: dict[str, Any] = {**event}
    values = [found.get(name) for name in ("event", "time", "id")]
    return not any(isinstance(value, list | tuple | np.ndarray) for value in values)
