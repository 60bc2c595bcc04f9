"""The choices a model would have made in a log of random ones: policies for offpolicy.py.

In a log of pages each place is a choice of its own among the remaining items: the policy under test
is asked for the next item after what was truly shown above, as for the propensities that
palmkit.kits.Ranking returns. One choice at a time is judged, not a whole page of the policy's own;
a user who looks at a page from the top sees mostly the first places.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import TableError
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.log import Page, Row, read_pages
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns
from palmkit.models.reranker.offpolicy import Choices, Feedback, read_feedback, uniform

_Doubles = NDArray[np.float64]


class _Gathered:
    """Choices, row after row."""

    def __init__(self) -> None:
        self._rows: list[NDArray[np.int64]] = []
        self._items: list[NDArray[np.int64]] = []
        self._chances: list[_Doubles] = []

    def add(self, row: int, items: NDArray[np.int64], chances: _Doubles) -> None:
        kept = np.flatnonzero(chances)
        self._rows.append(np.full(len(kept), row))
        self._items.append(items[kept])
        self._chances.append(chances[kept])

    def all(self) -> Choices:
        return Choices(
            np.concatenate(self._rows), np.concatenate(self._items), np.concatenate(self._chances)
        )


def judged(
    rows: Iterable[Row],
    schema: Schema,
    reranker: Reranker | None,
    temperature: float = 0.0,
    places: int | None = None,
) -> tuple[Feedback, _Doubles | Choices]:
    """Return a log's feedback, and the model's probability of each item in each of its rows.

    Pages come as palmkit.kits.ranking.log says, in the order shown, each item with its propensity
    given those above it. The model gets them in the order of the schema's position, which is the
    server's before chance came in, or of their ids if there is none. Rows without pages are each a
    choice among all items of the log, which the model gets in the order of their ids; an item's
    features are those of its first row.
    reranker: the model; None: chance, with equal probability for each remaining item. temperature:
    0: the best by the model, at place p of rows without pages the best but p - 1; else the softmax
    of scores / temperature. places: of a page, from the top; None: all.
    Raises TableError as offpolicy.read_feedback and palmkit.kits.Reranker do.
    """
    upcoming = iter(rows)
    begun = [*islice(upcoming, 1)]
    together = chain(begun, upcoming)
    if any(
        isinstance(row.get("items"), list)
        or row.get(schema.page)
        or (schema.event in row and schema.label not in row)
        for row in begun
    ):
        return _of_pages(read_pages(together, schema), schema, reranker, temperature, places)
    return _of_rows([*together], schema, reranker, temperature)


def _of_pages(
    pages: Iterable[Page],
    schema: Schema,
    reranker: Reranker | None,
    temperature: float,
    places: int | None,
) -> tuple[Feedback, _Doubles | Choices]:
    known: dict[str, int] = {}
    gathered = _Gathered()
    found: list[tuple[int, int, float, float, int]] = []
    for number, page in enumerate(pages):
        columns = Columns(f"log: page at row {page.number}", page.items)
        names = columns.ids(schema.id)
        columns.require(schema.propensity)
        chances = columns.numbers(schema.propensity)
        wrong = np.flatnonzero(~((chances > 0) & (chances <= 1)))
        if len(wrong):
            at = int(wrong[0])
            raise TableError(
                f"log: page at row {page.number}: row {at}, column {schema.propensity}: expected "
                f"more than 0, at most 1: {chances[at]:g}"
            )
        keys = np.array([known.setdefault(name, len(known)) for name in names])
        scores = None if reranker is None else _scores(reranker, page, names, schema)
        for at in range(min(len(names), places or len(names))):
            left = np.arange(at, len(names))
            gathered.add(len(found), keys[left], _shares(scores, left, temperature))
            found.append((int(keys[at]), at, page.labels[at], float(chances[at]), number))
    if not found:
        raise TableError("log: expected pages, got none")
    items, stood, rewards, propensities, numbers = map(np.array, zip(*found, strict=True))
    feedback = Feedback(
        names=tuple(known),
        positions=tuple(float(place) for place in range(1, 2 + int(stood.max()))),
        items=items,
        places=stood,
        rewards=rewards,
        propensities=propensities,
        pages=numbers,
    )
    return feedback, gathered.all()


def _scores(reranker: Reranker, page: Page, names: list[str], schema: Schema) -> _Doubles:
    """Return the model's scores of the items as they were shown, float64[n]."""
    if schema.position is None:
        order = sorted(range(len(names)), key=names.__getitem__)
    else:
        given = Columns(f"log: page at row {page.number}", page.items).numbers(schema.position)
        order = np.argsort(given, kind="stable").tolist()
    try:
        ranking = reranker.rerank([page.items[at] for at in order], page.history, page.context)
    except TableError as error:
        raise TableError(f"log: page at row {page.number}: {error}") from None
    found = np.empty(len(names), np.float64)
    found[np.array(order)[ranking.rows]] = ranking.scores
    return found


def _shares(scores: _Doubles | None, left: NDArray[np.int64], temperature: float) -> _Doubles:
    """Return the probability of each remaining item to come next, float64[left]."""
    if scores is None:
        return np.full(len(left), 1 / len(left))
    if not temperature:
        return np.asarray(np.arange(len(left)) == scores[left].argmax(), np.float64)
    powers = np.exp((scores[left] - scores[left].max()) / temperature)
    return np.asarray(powers / powers.sum(), np.float64)


def _of_rows(
    rows: list[Row], schema: Schema, reranker: Reranker | None, temperature: float
) -> tuple[Feedback, _Doubles | Choices]:
    feedback = read_feedback(rows, schema)
    if reranker is None:
        return feedback, uniform(feedback)
    gathered = _Gathered()
    every = np.arange(len(feedback.names))
    ranks = np.argsort(np.argsort(feedback.positions))
    if max(ranks) >= len(every):
        raise TableError(f"log: expected an item for each of {len(ranks)} places: {len(every)}")
    order = sorted(every.tolist(), key=feedback.names.__getitem__)
    firsts = {
        int(item): row for item, row in zip(feedback.items[::-1], reversed(rows), strict=True)
    }
    catalogue = [
        {**firsts[item], **({} if schema.position is None else {schema.position: at})}
        for at, item in enumerate(order, 1)
    ]
    said: dict[str, _Doubles] = {}
    for number, row in enumerate(rows):
        context = {name: row.get(name) for name in schema.context}
        history: Any = row.get("history")
        key = "" if isinstance(history, list) else repr(context)
        scores = said.get(key)
        if scores is None:
            ranking = reranker.rerank(catalogue, history if not key else (), context)
            scores = np.empty(len(every))
            scores[np.array(order)[ranking.rows]] = ranking.scores
            if key:
                said[key] = scores
        if temperature:
            gathered.add(number, every, _shares(scores, every, temperature))
        else:
            best = np.argsort(-scores, kind="stable")[ranks[feedback.places[number]]]
            gathered.add(number, np.array([best]), np.ones(1))
    return feedback, gathered.all()
