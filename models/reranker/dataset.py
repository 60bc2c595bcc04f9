"""Training examples made of a log in two passes, a row at a time, with lists on disk."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmkit.kits.ranking.events import encode_events
from palmkit.kits.ranking.features import Inputs, Layout, context_codes
from palmkit.kits.ranking.log import Page, read_pages
from palmkit.kits.ranking.page import encode_page
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns

Row = dict[str, Any]
# The most frequent values of a category that are kept; others count as unseen.
WORDS = 5000
# Values that occur less often count as unseen, too.
RARE = 3
_ARRAYS = ("items", "item_codes", "events", "event_codes", "links", "labels")
_TYPES = {"item_codes": np.int32, "event_codes": np.int32, "links": np.float16}


class Example(NamedTuple):
    """A page as the network sees it.

    labels: float32[n]; start: of its session, in seconds.
    """

    inputs: Inputs
    labels: NDArray[np.float32]
    start: float


def learn_vocabulary(rows: Iterable[Row], schema: Schema) -> list[dict[str, int]]:
    """Return the values of each category and context column in a log: text to code.

    Codes begin with 1 and are used once, so that one table of embeddings serves all.
    """
    names = (*schema.categories, *schema.context)
    counts: list[Counter[str]] = [Counter() for _ in names]
    for number, row in enumerate(rows):
        items = row.get("items")
        tables: tuple[list[Row], list[Row]] = (
            items if isinstance(items, list) else [row],
            [row["context"]] if isinstance(row.get("context"), dict) else [row],
        )
        for which, name in enumerate(names):
            columns = Columns(f"log: row {number}", tables[which >= len(schema.categories)])
            counts[which].update(text for text in columns.texts(name) if text)
    kept = [[w for w, n in each.most_common(WORDS) if n >= RARE] for each in counts]
    found: list[dict[str, int]] = []
    used = 0
    for words in kept:
        found.append({word: code for code, word in enumerate(words, used + 1)})
        used += len(words)
    return found


def encode(page: Page, layout: Layout, vocabulary: list[dict[str, int]]) -> Example:
    """Return a page of a log as the network sees it, in the server's order, and the choices."""
    schema = layout.schema
    encoded = encode_page(page.items, schema, vocabulary)
    labels = np.array(page.labels, np.float32)
    if schema.position is not None:
        order = np.argsort(encoded.positions, kind="stable")
        encoded = encode_page([page.items[row] for row in order], schema, vocabulary)
        labels = labels[order]
    events = encode_events(page.history, schema, vocabulary[: len(schema.categories)])
    context = context_codes(page.context, schema, vocabulary)
    inputs = layout.build(encoded, events, page.time, context)
    return Example(inputs, labels, page.start)


class Lists(Sequence[Example]):
    """Examples on disk, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        """Open what write_lists wrote."""
        facts = json.loads((folder / "lists.json").read_text())
        self._shapes = np.load(folder / "shapes.npy")
        self.starts: NDArray[np.float64] = np.load(folder / "starts.npy")
        self._widths: dict[str, int] = facts["widths"]
        self._arrays = {
            name: np.memmap(folder / f"{name}.bin", _TYPES.get(name, np.float32), "r")
            if (folder / f"{name}.bin").stat().st_size
            else np.zeros(0, _TYPES.get(name, np.float32))
            for name in _ARRAYS
        }
        self.counts: NDArray[np.int64] = self._shapes[:, 0]
        self.lengths: NDArray[np.int64] = self._shapes[:, 1]
        count, length = self.counts, self.lengths
        sizes = {
            "items": count,
            "item_codes": count,
            "events": length,
            "event_codes": length,
            "links": count * length,
            "labels": count,
        }
        self._ends = {name: sizes[name].cumsum() * self._widths[name] for name in _ARRAYS}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._shapes)

    def __getitem__(self, index: Any) -> Any:
        """Return the example at an index."""
        count, length = self._shapes[index].tolist()

        def part(name: str) -> NDArray[Any]:
            end = int(self._ends[name][index])
            rows = {"events": length, "event_codes": length, "links": count * length}
            size = rows.get(name, count) * self._widths[name]
            return np.asarray(self._arrays[name][end - size : end])

        return Example(
            Inputs(
                items=part("items").reshape(count, -1),
                item_codes=part("item_codes").reshape(count, self._widths["item_codes"]),
                events=part("events").reshape(length, -1),
                event_codes=part("event_codes").reshape(length, self._widths["event_codes"]),
                links=part("links").reshape(-1, count, length).astype(np.float32),
            ),
            part("labels"),
            float(self.starts[index]),
        )

    def __iter__(self) -> Iterator[Example]:
        """Yield the examples, one at a time."""
        return (self[index] for index in range(len(self)))


def write_lists(
    folder: Path,
    rows: Iterable[Row],
    layout: Layout,
    vocabulary: list[dict[str, int]],
    report: Callable[[], None] = lambda: None,
) -> Lists:
    """Encode the pages of a log on which something was chosen; the rows are read once.

    report: called for each row that was read.
    Raises TableError as palmkit.kits.ranking.log.read_pages does, or if no page has a choice.
    """
    folder.mkdir(parents=True, exist_ok=True)

    def told(rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            report()
            yield row

    shapes: list[tuple[int, int]] = []
    starts: list[float] = []
    widths: dict[str, int] = {}
    files = {name: (folder / f"{name}.bin").open("wb") for name in _ARRAYS}
    try:
        for page in read_pages(told(rows), layout.schema):
            if not any(page.labels):
                continue
            example = encode(page, layout, vocabulary)
            arrays = {**vars(example.inputs), "labels": example.labels}
            count, length = len(example.labels), len(example.inputs.events)
            shapes.append((count, length))
            starts.append(example.start)
            for name, array in arrays.items():
                rows_of = {"links": count * length, "events": length, "event_codes": length}
                widths.setdefault(name, array.size // rows_of.get(name, count))
                files[name].write(array.astype(_TYPES.get(name, np.float32)).tobytes())
    finally:
        for file in files.values():
            file.close()
    if not shapes:
        from palmkit.engine.errors import TableError

        raise TableError("log: expected pages of which something was chosen, got none")
    np.save(folder / "shapes.npy", np.array(shapes, np.int64))
    np.save(folder / "starts.npy", np.array(starts))
    (folder / "lists.json").write_text(json.dumps({"widths": widths}))
    return Lists(folder)


@dataclass(frozen=True)
class Scaling:
    """The mean to subtract from each column of Inputs.items, and the divisor."""

    shift: NDArray[np.float32]
    spread: NDArray[np.float32]

    @classmethod
    def of(cls, examples: Iterable[Example]) -> Scaling:
        """Return mean and standard deviation, in one pass."""
        total, count = 0, 0
        mean: Any = 0.0
        square: Any = 0.0
        for example in examples:
            items = example.inputs.items.astype(np.float64)
            total, count = total + len(items), count + 1
            mean = mean + items.sum(axis=0)
            square = square + (items * items).sum(axis=0)
        mean = mean / total
        spread = np.sqrt(np.maximum(square / total - mean * mean, 0))
        spread = np.where(spread < 1e-4, 1, spread)
        return cls(mean.astype(np.float32), spread.astype(np.float32))

    def of_items(self, inputs: Inputs) -> Inputs:
        """Return scaled inputs, at most 10 spreads from the mean."""
        items = np.clip((inputs.items - self.shift) / self.spread, -10, 10)
        return replace(inputs, items=items)
