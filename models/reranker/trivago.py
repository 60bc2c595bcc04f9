"""The lists of the ACM RecSys Challenge 2019 as a log; for measuring only, never for weights.

Each click is predicted from earlier rows of its session, from what users of other sessions did
before this session began, and from prices, device, platform and filters.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
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
# Of each item of a list. clicks, touches, shown: how often others clicked it, did anything with it
# or saw it. ctr: clicks over what its places would have earned. usual: its mean place in others'
# lists. cheaper: log of their mean price over this one. together: how many others touched it and
# what this user touched. seen, skipped: in lists of this session before, and there above a click.
# moved, changed: places up and log price since the last of them. fresh: touched since the last
# filter, sort order or search.
NUMBERS = (
    "clicks", "ctr", "touches", "shown", "usual", "cheaper", "together",
    "seen", "skipped", "moved", "changed", "fresh",
)  # fmt: skip
# Features that depend on the places of other lists, or on those of this session.
OF_PLACES = ("ctr", "usual", "skipped", "moved")
SCHEMA = Schema(
    price="price",
    numbers=NUMBERS,
    context=("device", "platform", "sort", "last", "lists", "filters"),
    events=EVENTS,
)
SORTS = ("Sort by Price", "Sort By Distance", "Sort By Rating", "Sort By Popularity", "Best Value",
         "Focus on Distance", "Focus on Rating")  # fmt: skip
# A rate of clicks counts as if this many more clicks had been expected and had come.
PRIOR_CLICKS = 1.0
# How many of the latest users of an item are checked for what else they touched.
NEIGHBOURS = 50


class _Past:
    """What other users did with each item before a time, and how much."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = defaultdict(list)
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0])
        self._own: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        self._users: dict[str, list[str]] = defaultdict(list)

    def add(self, user: str, item: str, time: float, amount: float = 1.0) -> None:
        """Add a row; rows come in order of time."""
        self._times[item].append(time)
        self._users[item].append(user)
        self._sums[item].append(self._sums[item][-1] + amount)
        self._own[user, item].append((time, amount))

    def of(self, user: str, item: str, before: float) -> tuple[int, float]:
        """Return how often others did it before a time, and the sum of the amounts."""
        times = self._times.get(item)
        if times is None:
            return 0, 0.0
        count = bisect_left(times, before)
        own = [amount for time, amount in self._own.get((user, item), ()) if time < before]
        return count - len(own), self._sums[item][count] - sum(own)

    def users(self, item: str, before: float) -> list[str]:
        """Return who did it last before a time."""
        count = bisect_left(self._times.get(item, []), before)
        return self._users.get(item, [])[max(0, count - NEIGHBOURS) : count]


@dataclass
class _Session:
    """What a session showed and did so far."""

    seen: Counter[str] = field(default_factory=Counter[str])
    skipped: Counter[str] = field(default_factory=Counter[str])
    places: dict[str, int] = field(default_factory=dict[str, int])
    prices: dict[str, float] = field(default_factory=dict[str, float])
    touched: dict[str, None] = field(default_factory=dict[str, None])
    fresh: set[str] = field(default_factory=set[str])
    last: str = "nothing"
    lists: int = 0


class _Log:
    """The file, and what is known of all of it at any time."""

    def __init__(self, raw: list[Row]) -> None:
        self.clicks, self.shown, self.touches = _Past(), _Past(), _Past()
        self.places, self.prices = _Past(), _Past()
        self.starts: dict[tuple[str, str], float] = {}
        self._touched: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for row in raw:
            user, time = row["user_id"], float(row["timestamp"])
            self.starts.setdefault((user, row["session_id"]), time)
            if row["action_type"] == CLICK:
                self.clicks.add(user, row["reference"], time)
                for at, (item, price) in enumerate(_items(row)):
                    self.shown.add(user, item, time, 0.3 / (at + 1))
                    self.places.add(user, item, time, at + 1.0)
                    self.prices.add(user, item, time, math.log(max(price, 1.0)))
            if row["action_type"] not in WITHOUT_ITEM:
                self.touches.add(user, row["reference"], time)
                self._touched[user].append((time, row["reference"]))

    def together(self, user: str, touched: list[str], before: float) -> Counter[str]:
        """Return for each item how many others touched it and one of these."""
        others = {who for item in touched for who in self.touches.users(item, before)} - {user}
        return Counter(
            item
            for who in others
            for item in {item for time, item in self._touched[who] if time < before}
        )


def _items(row: Row) -> list[tuple[str, float]]:
    prices = [float(price) for price in row["prices"].split("|")]
    return list(zip(row["impressions"].split("|"), prices, strict=True))


def read(path: Path) -> list[Row]:
    """Return the rows of the file, in order of time."""
    return sorted(
        read_rows(path), key=lambda row: (int(row["timestamp"]), row["user_id"], int(row["step"]))
    )


def rows(path: Path) -> Iterator[Row]:
    """Yield a log for palmkit.kits.ranking.log, with the file's split in each row."""
    raw = read(path)
    log = _Log(raw)
    following = _following(raw)
    sessions: dict[tuple[str, str], _Session] = defaultdict(_Session)
    for at, row in enumerate(raw):
        time, kind = float(row["timestamp"]), row["action_type"]
        name = (row["user_id"], row["session_id"])
        session = sessions[name]
        base: Row = {"session": " ".join(name), "time": time, "split": row.get("split")}
        item = None if kind in WITHOUT_ITEM else row["reference"]
        # The time until the next row is known when that row comes.
        after = following.get(at)
        stay = None if after is None else float(raw[after]["timestamp"]) - time
        if kind == CLICK:
            yield {**base, "event": kind, **_page(row, session, log)}
            _learn(session, row)
        else:
            yield {**base, "event": kind, "id": item, "value": stay}
        session.last = kind
        if item is None:
            session.fresh.clear()
        else:
            session.fresh.add(item)
            session.touched.pop(item, None)
            session.touched[item] = None


def _following(raw: list[Row]) -> dict[int, int]:
    last: dict[tuple[str, str], int] = {}
    found: dict[int, int] = {}
    for at, row in enumerate(raw):
        name = (row["user_id"], row["session_id"])
        if name in last:
            found[last[name]] = at
        last[name] = at
    return found


def _page(row: Row, session: _Session, log: _Log) -> Row:
    user = row["user_id"]
    start = log.starts[user, row["session_id"]]
    items: list[Row] = []
    touched = list(session.touched)
    together = log.together(user, touched[-10:], start)
    for at, (name, price) in enumerate(_items(row)):
        clicks, _ = log.clicks.of(user, name, start)
        shown, expected = log.shown.of(user, name, start)
        _, places = log.places.of(user, name, start)
        _, prices = log.prices.of(user, name, start)
        level = math.log(max(price, 1.0))
        items.append(
            {
                "id": name,
                "price": price,
                "clicks": clicks,
                "ctr": math.log((clicks + PRIOR_CLICKS) / (expected + PRIOR_CLICKS)),
                "touches": log.touches.of(user, name, start)[0],
                "shown": math.log1p(shown),
                "usual": places / shown if shown else None,
                "cheaper": prices / shown - level if shown else None,
                "together": math.log1p(together[name]),
                "seen": session.seen[name],
                "skipped": session.skipped[name],
                "moved": session.places[name] - at if name in session.places else None,
                "changed": level - session.prices[name] if name in session.prices else None,
                "fresh": float(name in session.fresh),
            }
        )
    filters = [each for each in (row["current_filters"] or "").split("|") if each]
    context = {
        "device": row["device"],
        "platform": row["platform"],
        "sort": next((each for each in SORTS if each in filters), "none"),
        "last": session.last,
        "lists": str(min(session.lists, 4)),
        "filters": str(min(len(filters), 4)),
    }
    return {"items": items, "context": context, "chosen": [row["reference"]]}


def _learn(session: _Session, row: Row) -> None:
    """Remember a list and what was clicked."""
    shown = _items(row)
    names = [name for name, _ in shown]
    chosen = names.index(row["reference"]) if row["reference"] in names else -1
    session.lists += 1
    for at, (name, price) in enumerate(shown):
        session.seen[name] += 1
        session.skipped[name] += at < chosen
        session.places[name] = at
        session.prices[name] = math.log(max(price, 1.0))
