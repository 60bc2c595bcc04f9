"""Encoded events of a user: at most a given number, oldest first."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import TableError
from palmkit.kits.ranking.kinds import PASSIVE, expected, kind_of
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns, Floats, Keys, Table, keys


@dataclass(frozen=True, eq=False)
class Events:
    """m events; see Schema for the meaning of each column.

    ids: int64[m] keys. kinds: int64[m], rows of Schema.events, one more for the kind "other".
    wanted: float32[m], 1 unless the item was only seen. times: float64[m], seconds.
    values: float32[m], NaN where missing. measures: float32[m, Schema.measures], NaN where missing.
    categories: int64[m, Schema.categories] keys, 0 where missing.
    codes: int64[m, Schema.categories], rows of a model's vocabulary.
    vectors: float32[m, sum of Schema.embeddings], zeros where missing.
    """

    ids: Keys
    kinds: Keys
    wanted: Floats
    times: NDArray[np.float64]
    values: Floats
    measures: Floats
    categories: Keys
    codes: Keys
    vectors: Floats

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    def joined(self, more: Events, limit: int) -> Events:
        """Return the last `limit` events of both by time; events of one time stay in order."""
        if not len(self):
            joined = more
        else:
            joined = Events(
                *(
                    np.concatenate([getattr(self, each.name), getattr(more, each.name)])
                    for each in fields(Events)
                )
            )
        times = joined.times
        if len(times) > 1 and (times[1:] < times[:-1]).any():
            joined = joined.taken(np.argsort(times, kind="stable"))
        return joined if len(joined) <= limit else joined.taken(slice(len(joined) - limit, None))

    def taken(self, rows: Any) -> Events:
        """Return the events of some rows."""
        return Events(*(getattr(self, each.name)[rows] for each in fields(Events)))


def encode_events(table: Table, schema: Schema, vocabulary: list[dict[str, int]]) -> Events:
    """Return the events of a table; id, kind and time are needed, the rest may be missing.

    vocabulary: for each of the schema's categories, text to code.
    Raises TableError naming row and column, also for a kind that is neither one of the schema's nor
    another name of it.
    """
    columns = Columns("history", table)
    count = columns.count
    for name in (schema.event, schema.time):
        columns.require(name)
    texts = [columns.texts(name) for name in schema.categories]
    known = {kind: row for row, kind in enumerate(schema.events)}
    kinds: list[int] = []
    wanted: list[float] = []
    for row, told in enumerate(columns.texts(schema.event)):
        if told is None:
            columns.refuse(schema.event, row, "the kind of an event")
        kind = kind_of(told, schema.events)
        if kind is None:
            place = f"history: row {row}, column {schema.event}"
            raise TableError(f"{place}: {expected(told, schema.events)}")
        kinds.append(known.get(kind, len(known)))
        wanted.append(0.0 if kind in PASSIVE else 1.0)
    times = columns.numbers(schema.time)
    if np.isnan(times).any():
        columns.refuse(schema.time, int(np.isnan(times).argmax()), "seconds")
    measures = np.full((count, len(schema.measures)), math.nan, np.float32)
    for column, name in enumerate(schema.measures):
        if name in columns:
            measures[:, column] = columns.measures(name)
    return Events(
        ids=keys(columns.texts(schema.id)),
        kinds=np.array(kinds, np.int64),
        wanted=np.array(wanted, np.float32),
        times=times,
        values=columns.measures(schema.value),
        measures=measures,
        categories=stacked([keys(each) for each in texts], count),
        codes=stacked(
            [codes(each, words) for each, words in zip(texts, vocabulary, strict=True)], count
        ),
        vectors=read_vectors(columns, schema),
    )


def codes(texts: list[str | None], words: dict[str, int]) -> Keys:
    """Return the code of each text, int64[n], 0 for missing and unknown ones."""
    return np.fromiter((words.get(each, 0) if each else 0 for each in texts), np.int64, len(texts))


def stacked(columns: list[Keys], count: int) -> Keys:
    """Return columns side by side, int64[count, columns]."""
    return np.stack(columns, axis=1) if columns else np.zeros((count, 0), np.int64)


def read_vectors(columns: Columns, schema: Schema) -> Floats:
    """Return embeddings side by side, each of length 1 or 0: float32[n, sum of lengths]."""
    found: list[Floats] = []
    for name, length in schema.embeddings.items():
        vectors = columns.vectors(name, length)
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
        found.append(vectors / np.maximum(norms, np.float32(1e-12)))
    return np.concatenate(found, axis=1) if found else np.zeros((columns.count, 0), np.float32)


@lru_cache(maxsize=16)
def _empty(measures: int, categories: int, width: int) -> Events:
    whole = np.zeros(0, np.int64)
    real = np.zeros(0, np.float32)
    return Events(
        ids=whole,
        kinds=whole,
        wanted=real,
        times=np.zeros(0, np.float64),
        values=real,
        measures=np.zeros((0, measures), np.float32),
        categories=np.zeros((0, categories), np.int64),
        codes=np.zeros((0, categories), np.int64),
        vectors=np.zeros((0, width), np.float32),
    )


def no_events(schema: Schema) -> Events:
    """Return empty events."""
    return _empty(len(schema.measures), len(schema.categories), sum(schema.embeddings.values()))
