"""Logs of what was shown and done: JSON Lines, CSV or Parquet, read row by row.

A log is in order of time. A row is either an event (its kind, time, item id and what else is known
of the item), or shows a page, in one of two forms:

* JSON: `{"items": [{...}, ...], "chosen": [id, ...], "context": {...}, "session": .., "time": ..}`;
  chosen may also hold `{"id": ..., "event": "buy"}`, and "history" stands for the session's earlier
  rows. The kind of what is chosen is else the row's own "event", if that is a choice, or a click.
* A table: rows that follow one another with the same value in the schema's `page` column are the
  items of one page, `label` says which were chosen; rows without a page are events.

What was chosen becomes an event of its session, after the page.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, cast

from palmkit.engine.errors import TableError
from palmkit.engine.reading import check_readable
from palmkit.kits.parquet_files import batches
from palmkit.kits.ranking.kinds import OTHER, PASSIVE, expected, kind_of
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns

SUFFIXES = (".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
# Sessions remembered at a time; the one that was quiet for longest is forgotten first.
SESSIONS = 100_000
Row = dict[str, Any]


@dataclass
class Page:
    """A page as it was shown, with what came before it.

    labels: 1 where an item was chosen, 0 elsewhere, one an item. number: of its first row in the
    log. start: time of the session's first row.
    """

    items: list[Row]
    history: list[Row]
    context: Row
    labels: list[float]
    session: str
    time: float
    start: float
    number: int


@dataclass
class _Session:
    start: float
    events: deque[Row] = field(default_factory=lambda: deque[Row](maxlen=100))


def read_rows(path: str | os.PathLike[str]) -> Iterator[Row]:
    """Yield the rows of a log, one at a time; .gz is decompressed on the way.

    Numbers in CSV stay text, which a schema's columns accept; an empty cell is a missing value.
    Raises TableError naming the row for invalid content, OSError as open does, ImportError if
    Parquet is read without pyarrow (extra `rerank`).
    """
    file = Path(path)
    suffix = Path(file.stem).suffix.lower() if file.suffix == ".gz" else file.suffix.lower()
    if suffix == ".parquet":
        for batch in batches(file, 4096):
            yield from batch.to_pylist()
        return
    if suffix not in SUFFIXES:
        raise TableError(f"log: expected one of {', '.join(SUFFIXES)}, or one with .gz: {file}")
    with _open(file) as text:
        reader = _json(text) if suffix in (".jsonl", ".ndjson") else _csv(text, suffix == ".tsv")
        try:
            yield from reader
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TableError(f"log: {error}: {file}") from None


def _open(file: Path) -> TextIO:
    check_readable(file)
    if file.suffix == ".gz":
        return cast(TextIO, gzip.open(file, "rt", encoding="utf-8", newline=""))
    return file.open(encoding="utf-8", newline="")


def _json(text: TextIO) -> Iterator[Row]:
    for number, line in enumerate(text):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise TableError(f"log: row {number}: expected JSON: {line[:60]!r}") from None
        if not isinstance(row, dict):
            raise TableError(f"log: row {number}: expected an object, got {type(row).__name__}")
        yield cast(Row, row)


def _csv(text: TextIO, tabs: bool) -> Iterator[Row]:
    reader = csv.DictReader(text, delimiter="\t" if tabs else ",")
    try:
        for number, row in enumerate(reader):
            if None in row or None in row.values():
                expected = len(reader.fieldnames or ())
                raise TableError(f"log: row {number}: expected {expected} cells")
            yield {name: value if value != "" else None for name, value in row.items()}
    except csv.Error as error:
        raise TableError(f"log: line {reader.line_num}: {error}") from None


def head(path: str | os.PathLike[str], count: int = 10_000) -> list[Row]:
    """Return the first rows of a log."""
    return list(islice(read_rows(path), count))


def read_pages(rows: Iterable[Row], schema: Schema) -> Iterator[Page]:
    """Yield the pages of a log, each with what its session did before it.

    Raises TableError naming the row for a page without items, without time or with a time before an
    earlier row of its session, and for an event of an unknown kind.
    """
    sessions: OrderedDict[str, _Session] = OrderedDict()
    flat: list[Row] = []
    begin = 0
    for number, row in enumerate(rows):
        page = row.get(schema.page)
        if flat and page != flat[0].get(schema.page):
            yield _flat_page(flat, schema, sessions, begin)
            flat = []
        if isinstance(row.get("items"), list):
            yield _nested_page(row, schema, sessions, number)
        elif page is not None and page != "" and schema.label in row:
            begin = begin if flat else number
            flat.append(row)
        else:
            session = _session(row, schema, sessions, number)[1]
            if row.get(schema.event) is not None:
                _kind(row[schema.event], schema, number)
            session.events.append(row)
    if flat:
        yield _flat_page(flat, schema, sessions, begin)


def _session(
    row: Row, schema: Schema, sessions: OrderedDict[str, _Session], number: int
) -> tuple[str, _Session, float]:
    columns = Columns("log", [row])
    try:
        time = float(columns.numbers(schema.time)[0])
        name = columns.texts(schema.session)[0] or ""
    except TableError as error:
        raise TableError(str(error).replace("row 0", f"row {number}", 1)) from None
    if time != time:
        raise TableError(f"log: row {number}, column {schema.time}: expected a time, got nothing")
    # Rows without a session are independent.
    found = sessions.pop(name, None) if name else None
    if found is None:
        found = _Session(time)
    elif found.events and time < _time(found.events[-1], schema):
        raise TableError(
            f"log: row {number}, column {schema.time}: expected order of time in a session: {time}"
        )
    if name:
        sessions[name] = found
        if len(sessions) > SESSIONS:
            sessions.popitem(last=False)
    return name, found, time


def _time(event: Row, schema: Schema) -> float:
    return float(event[schema.time])


def _nested_page(
    row: Row, schema: Schema, sessions: OrderedDict[str, _Session], number: int
) -> Page:
    name, session, time = _session(row, schema, sessions, number)
    items: list[Any] = [*row["items"]]
    if not items or not all(isinstance(item, Mapping) for item in items):
        raise TableError(f"log: row {number}, column items: expected dicts: {str(items)[:60]}")
    chosen: dict[str, str] = {}
    for each in cast("list[Any]", row.get("chosen") or []):
        is_dict = isinstance(each, Mapping)
        given = cast("Mapping[str, Any]", each) if is_dict else {schema.id: each}
        key = Columns(f"log: row {number}, chosen", [given]).ids(schema.id)[0]
        chosen[key] = _choice(given.get(schema.event) or row.get(schema.event), schema, number)
    keys = Columns(f"log: row {number}, items", items).ids(schema.id)
    history = row.get("history")
    context = row.get("context")
    page = Page(
        items=items,
        history=list(session.events) if history is None else cast("list[Row]", history),
        context={**(context if isinstance(context, dict) else {}), schema.time: time},
        labels=[float(key in chosen) for key in keys],
        session=name,
        time=time,
        start=session.start,
        number=number,
    )
    for key, item in zip(keys, items, strict=True):
        if key in chosen:
            session.events.append({**item, schema.time: time, schema.event: chosen[key]})
    return page


def _flat_page(
    rows: list[Row], schema: Schema, sessions: OrderedDict[str, _Session], number: int
) -> Page:
    name, session, time = _session(rows[0], schema, sessions, number)
    try:
        labels = Columns("log", rows).numbers(schema.label)
    except TableError as error:
        raise TableError(f"page at row {number}: {error}") from None
    context = {key: rows[0].get(key) for key in schema.context}
    chosen = [label > 0 for label in labels.tolist()]
    page = Page(
        items=rows,
        history=list(session.events),
        context={**context, schema.time: time},
        labels=[float(each) for each in chosen],
        session=name,
        time=time,
        start=session.start,
        number=number,
    )
    for row, (item, is_chosen) in enumerate(zip(rows, chosen, strict=True), number):
        if is_chosen:
            event = _choice(item.get(schema.event), schema, row)
            session.events.append({**item, schema.time: time, schema.event: event})
    return page


def _kind(name: Any, schema: Schema, number: int) -> str:
    """Return the kind that a name means; raise TableError naming the row for an unknown one."""
    kind = kind_of(str(name), schema.events)
    if kind is None:
        place = f"log: row {number}, column {schema.event}"
        raise TableError(f"{place}: {expected(str(name), schema.events)}")
    return kind


def _choice(name: Any, schema: Schema, number: int) -> str:
    """Return the kind of a choice: what the log says of it, or a click.

    That a page or an item was shown says nothing of the choice.
    """
    kind = OTHER if name is None else _kind(name, schema, number)
    if name is None or kind in PASSIVE:
        return kind_of("click", schema.events) or OTHER
    return kind
