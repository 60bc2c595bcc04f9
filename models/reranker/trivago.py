"""The lists of the ACM RecSys Challenge 2019 as a log; for measuring only, never for weights.

Each click is predicted from rows of its session before it, from what users of other sessions did
before this session began, and from prices, device, platform and filters.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from palmkit.kits.ranking.log import Row, read_rows
from palmkit.kits.ranking.schema import Schema

CLICK = "clickout item"
EVENTS = (
    "interaction item image",
    "interaction item info",
    "interaction item rating",
    "interaction item deals",
    "search for item",
    CLICK,
    "filter selection",
    "change of sort order",
    "search for destination",
    "search for poi",
)
# Rows that are not about an item of a list: their reference is the name of a filter or place.
WITHOUT_ITEM = EVENTS[6:]
SCHEMA = Schema(
    price="price",
    numbers=("clicks", "ctr", "touches", "seen", "skipped"),
    context=("device", "platform", "sort"),
    events=EVENTS,
)
SORTS = ("Sort by Price", "Sort By Distance", "Sort By Rating", "Sort By Popularity", "Best Value",
         "Focus on Distance", "Focus on Rating")  # fmt: skip


class _Past:
    """When users touched each item: those before a time, of other users."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)
        self._own: dict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, user: str, item: str, time: float) -> None:
        """Rows come in order of time."""
        self._times[item].append(time)
        self._own[user, item].append(time)

    def count(self, user: str, item: str, before: float) -> int:
        """How often others did before a time."""
        others = bisect_left(self._times.get(item, []), before)
        return others - bisect_left(self._own.get((user, item), []), before)


def read(path: Path) -> list[Row]:
    """The rows of the file, in order of time."""
    return sorted(
        read_rows(path), key=lambda row: (int(row["timestamp"]), row["user_id"], int(row["step"]))
    )


def rows(path: Path) -> Iterator[Row]:
    """A log for palmkit.kits.ranking.log, with the split that the file names in each row."""
    raw = read(path)
    clicks, shown, touches = _Past(), _Past(), _Past()
    starts: dict[tuple[str, str], float] = {}
    for row in raw:
        user, time = row["user_id"], float(row["timestamp"])
        starts.setdefault((user, row["session_id"]), time)
        if row["action_type"] == CLICK:
            clicks.add(user, row["reference"], time)
            for item in row["impressions"].split("|"):
                shown.add(user, item, time)
        elif row["action_type"] not in WITHOUT_ITEM:
            touches.add(user, row["reference"], time)
    seen: Counter[tuple[str, str, str]] = Counter()
    skipped: Counter[tuple[str, str, str]] = Counter()
    for row in raw:
        user, time = row["user_id"], float(row["timestamp"])
        visit = row["session_id"]
        start = starts[user, row["session_id"]]
        base = {
            "session": f"{user} {row['session_id']}",
            "time": time,
            "event": row["action_type"],
            "split": row.get("split"),
        }
        if row["action_type"] != CLICK:
            item = None if row["action_type"] in WITHOUT_ITEM else row["reference"]
            yield {**base, "id": item}
            continue
        items: list[Row] = []
        names = row["impressions"].split("|")
        prices = [float(price) for price in row["prices"].split("|")]
        for name, price in zip(names, prices, strict=True):
            clicked = clicks.count(user, name, start)
            items.append(
                {
                    "id": name,
                    "price": price,
                    "clicks": clicked,
                    "ctr": (clicked + 1) / (shown.count(user, name, start) + 20),
                    "touches": touches.count(user, name, start),
                    "seen": seen[user, visit, name],
                    "skipped": skipped[user, visit, name],
                }
            )
        chosen = names.index(row["reference"]) if row["reference"] in names else -1
        for at, name in enumerate(names):
            seen[user, visit, name] += 1
            skipped[user, visit, name] += at < chosen
        filters = (row["current_filters"] or "").split("|")
        context = {
            "device": row["device"],
            "platform": row["platform"],
            "sort": next((each for each in SORTS if each in filters), "none"),
        }
        yield {**base, "items": items, "context": context, "chosen": [row["reference"]]}
