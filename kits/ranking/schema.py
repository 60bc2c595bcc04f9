"""The meaning of the columns of a log, a page or a history."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

from palmkit.engine.errors import TableError
from palmkit.engine.reading import read_text
from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.kinds import EVENTS, kind_of
from palmkit.kits.ranking.table import Columns, Table

_NAMES: dict[str, tuple[str, ...]] = {
    "id": ("id", "item_id", "item", "product_id", "article_id", "sku", "reference"),
    "position": ("position", "rank", "place", "slot"),
    "price": ("price", "cost", "amount"),
    "score": ("score", "server_score", "relevance", "pctr", "ctr"),
    "event": ("event", "event_type", "action", "action_type", "kind"),
    "time": ("time", "timestamp", "ts", "event_time", "impression_time"),
    "value": ("value", "dwell_s", "dwell", "read_time", "duration"),
    "session": ("session", "session_id", "user", "user_id"),
    "page": ("page", "page_id", "request", "request_id", "impression_id"),
    "label": ("label", "clicked", "click", "target"),
    "propensity": ("propensity", "propensity_score", "pscore"),
}
# Names of text that tells of one item, also behind another word: "item_title", "image_url".
_OF_ONE_ITEM = (
    *("title", "headline", "subtitle", "description", "summary", "abstract", "text", "body", "url"),
    *("link", "image", "thumbnail", "picture", "photo"),
)
# Texts of more words than this on the average are sentences, not the names of categories.
_MOST_WORDS = 2.5
_MOST_KINDS = 32
_CONTEXT = ("device", "platform", "os", "country", "language", "channel", "app_version")


@dataclass(frozen=True)
class Schema:
    """The columns of items, events and context, by what they mean; others are not looked at.

    id: the item's; 7 and "7" are the same.
    categories: text or numbers that are only ever equal or not: brand, shop, colour.
    numbers: quantities; larger and smaller mean something.
    embeddings: name to length, of vectors whose cosine says how alike two items are.
    position: place on the page, from 1; None: the order of the rows is the server's.
    price, score: the price, the server's score; None if there is none.
    context: categories that hold for a whole page: device, country.
    event, time, value: of an event: its kind, seconds, and how much (seconds of a dwell).
    session, page, label, propensity: of a log: whose events belong together; rows of one page, if
    it has a row an item; what was chosen (1 or true); how likely the page's policy was to show it.
    events: the kinds of events that a model tells apart. An event may have another name of the same
    kind ("purchase" is "buy"), or be "other"; exposures and skips say that an item was seen and
    left, all others that it was wanted.
    """

    id: str = "id"
    categories: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    embeddings: Mapping[str, int] = field(default_factory=dict[str, int])
    position: str | None = None
    price: str | None = None
    score: str | None = None
    context: tuple[str, ...] = ()
    event: str = "event"
    time: str = "time"
    value: str = "value"
    session: str = "session"
    page: str = "page"
    label: str = "label"
    propensity: str = "propensity"
    events: tuple[str, ...] = EVENTS

    def __post_init__(self) -> None:
        """Raise ValueError if a column has two meanings or a name is no text."""
        names = [
            *(
                name
                for name in (self.id, self.position, self.price, self.score)
                if name is not None
            ),
            *self.categories,
            *self.numbers,
            *self.embeddings,
        ]
        for name in (*names, *self.context, *self.events):
            if not isinstance(name, str) or not name:  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"schema: expected the name of a column: {name!r}")
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"schema: column has two meanings: {name!r}")
        for name, length in self.embeddings.items():
            if length < 1:
                raise ValueError(f"schema: embedding {name}: expected a length: {length!r}")
        if len(set(self.events)) != len(self.events) or not self.events:
            raise ValueError(f"schema: events: expected different names: {self.events!r}")

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that are numbers: position, price and score where there are, then numbers."""
        named = (self.position, self.price, self.score)
        return (*(name for name in named if name is not None), *self.numbers)

    @classmethod
    def infer(cls, log: Table) -> Schema:
        """Propose a schema for a log, or for a page of items; look at it before use.

        log: a table, or the path of a log (palmkit.kits.ranking.log): its first 10,000 rows count.
        Known names decide first ("item_id", "price", "timestamp", ...), then the values: lists of
        numbers of one length are embeddings, whole numbers and text with few values or a name that
        ends with "id" are categories, other numbers are numbers. Text that tells of one item, such
        as a title, is left out: it has about as many values as there are items, a name like
        "title", or is made of sentences. Kinds of events have the names that they have here.
        Raises TableError if it is no table or has no column for the id.
        """
        if isinstance(log, str | os.PathLike):
            from palmkit.kits.ranking.log import head

            log = head(os.fspath(log))
        rows = _items_of(log)
        columns = Columns("log", rows)
        found: dict[str, Any] = {}
        for role, names in _NAMES.items():
            for name in names:
                match = next((n for n in columns.names if n.lower() == name), None)
                if match is not None and match not in found.values():
                    found[role] = match
                    break
        if "id" not in found:
            raise TableError(
                "log: row 0: no column for the id of an item; there are: "
                + ", ".join(columns.names)
            )
        if "event" in found:
            kinds = Counter(text for text in columns.texts(found["event"]) if text)
            if any(kind_of(kind, EVENTS) is None for kind in kinds):
                # What is chosen of a page becomes a click, unless the log says otherwise.
                often = ["click", *(kind for kind, _ in kinds.most_common())]
                ours = dict.fromkeys(kind_of(kind, EVENTS) or kind for kind in often)
                found["events"] = tuple(sorted([*ours][:_MOST_KINDS]))
        items = len(set(columns.texts(found["id"])))
        guessed: dict[str, list[str]] = {"categories": [], "numbers": [], "context": []}
        embeddings: dict[str, int] = {}
        for name in columns.names:
            if name in found.values():
                continue
            role, length = _guess(name, columns, items)
            if length:
                embeddings[name] = length
            elif role:
                guessed[role].append(name)
        found.update((role, tuple(names)) for role, names in guessed.items())
        return cls(**found, embeddings=embeddings)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """Read a JSON file that save wrote, or one by hand; a key left out has its default.

        Raises TableError if it is not one, OSError if it cannot be read.
        """
        try:
            return cls.from_json(read_text(path))
        except (TableError, UnicodeDecodeError) as error:
            raise TableError(f"{error}: {path}") from None

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Return the schema of to_json's text. Raises TableError for another text."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise TableError("schema: expected JSON") from None
        known = {each.name for each in fields(cls)}
        if not isinstance(found, dict):
            raise TableError(f"schema: expected an object, got {type(found).__name__}")
        options: dict[str, Any] = {**found}
        for name, value in [*options.items()]:
            if name not in known:
                raise TableError(f"schema: unknown key {name!r}; known: {', '.join(sorted(known))}")
            if isinstance(value, list):
                options[name] = (*value,)
        try:
            return cls(**options)
        except (AttributeError, TypeError, ValueError) as error:
            raise TableError(f"{error}") from None

    def to_json(self) -> str:
        """Return all fields as JSON."""
        return json.dumps(asdict(self), indent=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, the whole file or none."""
        with replacing(path) as part:
            part.write_text(self.to_json() + "\n", encoding="utf-8")


def _items_of(log: Table) -> Table:
    """Return the items of rows that hold a page each; other rows as they are."""
    if not isinstance(log, Sequence) or isinstance(log, str | bytes):
        return log
    rows: list[Any] = []
    each: list[Any] = [*log]
    for row in each:
        page: dict[str, Any] = {**row} if isinstance(row, Mapping) else {}
        if isinstance(page.get("items"), list):
            outer = {key: page[key] for key in page if key not in ("items", "context", "history")}
            context = page.get("context")
            if isinstance(context, Mapping):
                outer.update(cast("Mapping[str, Any]", context))
            rows += [{**outer, **item} for item in page["items"] if isinstance(item, Mapping)]
        else:
            rows.append(row)
    return rows


def _guess(name: str, columns: Columns, items: int) -> tuple[str, int]:
    """Return the role of a column by its values, and the length of an embedding.

    items: how many there are in the log.
    """
    values = [value for value in columns.values(name) if value is not None]
    if not values:
        return "", 0
    if all(hasattr(value, "__len__") and not isinstance(value, str) for value in values):
        lengths = {len(value) for value in values}
        length = lengths.pop()
        try:
            columns.vectors(name, length)
        except TableError:
            return "", 0
        return ("", 0) if lengths or length < 2 else ("", length)
    if name.lower() in _CONTEXT:
        return "context", 0
    try:
        distinct = {text for text in columns.texts(name) if text is not None}
    except TableError:
        return "", 0
    few = len(distinct) <= max(20, items // 2)
    if all(isinstance(value, str | bool) for value in values):
        is_category = few and not _tells_of_one_item(name, distinct, items)
        return ("categories" if is_category else ""), 0
    try:
        numbers = columns.numbers(name)
    except TableError:
        return "", 0
    if name.lower().endswith("id"):
        return ("categories" if few else ""), 0
    whole = bool((numbers == numbers.round())[~(numbers != numbers)].all())
    return ("categories" if whole and len(distinct) <= 2 else "numbers"), 0


def _tells_of_one_item(name: str, texts: set[str], items: int) -> bool:
    """Return whether texts are titles and the like, and not what several items have in common."""
    words = name.lower().replace("-", "_").split("_")
    if words[-1] in _OF_ONE_ITEM or words == ["name"]:
        return True
    # Categories may have long names as well, but then several items have each.
    is_prose = sum(len(text.split()) for text in texts) > _MOST_WORDS * len(texts)
    return is_prose and len(texts) > items // 2
