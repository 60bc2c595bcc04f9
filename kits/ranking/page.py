"""An encoded page of items: in the server's order, with the network's features."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.events import Events, codes, read_vectors, stacked
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns, Floats, Keys, Table, keys


@dataclass(frozen=True, eq=False)
class Page:
    """n items in the order of the table.

    names: their ids as text; given: as they came. ids: int64[n] keys. positions: float32[n], from
    1. measures: float32[n, m], NaN where missing; categories, codes: int64[n, c]; vectors:
    float32[n, d]; as in Events.
    columns: the table, for what the network does not see.
    """

    names: list[str]
    given: list[Any]
    ids: Keys
    positions: Floats
    measures: Floats
    categories: Keys
    codes: Keys
    vectors: Floats
    columns: Columns

    def __len__(self) -> int:
        """Return how many items there are."""
        return len(self.names)


def encode_page(table: Table, schema: Schema, vocabulary: list[dict[str, int]]) -> Page:
    """Return the items of a table.

    A column of the schema that no row has is an error, a value that some rows lack is a missing
    value; only ids and, where the schema has them, positions are needed in every row.
    Raises TableError naming row and column, also for an id that comes twice.
    """
    columns = Columns("items", table)
    names = columns.ids(schema.id)
    if len(set(names)) < len(names):
        _refuse_twice(names, schema)
    count = len(names)
    measures = np.empty((count, len(schema.measures)), np.float32)
    for column, name in enumerate(schema.measures):
        columns.require(name)
        measures[:, column] = columns.measures(name)
    if schema.position is None:
        positions = np.arange(1, count + 1, dtype=np.float32)
    else:
        positions = measures[:, 0]
        # NaN fails this test, too.
        is_place = positions >= 0
        if not is_place.all():
            columns.refuse(schema.position, int(is_place.argmin()), "a place, 0 or more")
    texts: list[list[str | None]] = []
    for name in schema.categories:
        columns.require(name)
        texts.append(columns.texts(name))
    for name in schema.embeddings:
        columns.require(name)
    found = [codes(each, words) for each, words in zip(texts, vocabulary, strict=False)]
    return Page(
        names=names,
        given=[*columns.values(schema.id)],
        ids=keys(names),
        positions=positions,
        measures=measures,
        categories=stacked([keys(each) for each in texts], count),
        codes=stacked(found, count),
        vectors=read_vectors(columns, schema),
        columns=columns,
    )


def _refuse_twice(names: list[str], schema: Schema) -> None:
    from palmkit.engine.errors import TableError

    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if name in first:
            raise TableError(
                f"items: row {row}, column {schema.id}: also the id of row {first[name]}: {name!r}"
            )
        first[name] = row


def completed(events: Events, page: Page) -> Events:
    """Return events with missing facts about their items filled in from the page."""
    same = page.ids == events.ids[:, None]
    here = same.any(axis=1)
    if not here.any():
        return events
    at = same.argmax(axis=1)
    return replace(
        events,
        measures=_filled(events.measures, page.measures[at], here, np.isnan(events.measures)),
        categories=_filled(events.categories, page.categories[at], here, events.categories == 0),
        codes=_filled(events.codes, page.codes[at], here, events.categories == 0),
        vectors=_filled(
            events.vectors, page.vectors[at], here, ~events.vectors.any(axis=1, keepdims=True)
        ),
    )


def _filled(
    known: NDArray[Any], shown: NDArray[Any], here: NDArray[np.bool_], missing: Any
) -> NDArray[Any]:
    return np.where(missing & here[:, None], shown, known)
