"""A simulated shopping feed, from which the shipped demonstration model learned.

Nothing here is measured on people. A user has a lasting taste (a direction in a latent space,
brands that are liked or not, a usual price), and a visit has an intent (a category and a direction
near one item) that the server does not know. An item's worth to a visit is

    2.2 cos(intent, item) + 1.2 [category intended] + 0.9 taste of the brand
    + 0.6 cos(taste, item) - 0.8 |log price - log usual price| + 0.5 quality - 1.4

The server orders a page by cos(taste, item) + taste of the brand + quality + noise; three pages in
ten it shuffles, so that a place on the page says less of an item's worth. The user looks from the
top, goes on with a probability of 0.93 an item, clicks with the logistic function of worth - 1,
dwells for exp(2 + worth / 2 + noise) seconds, likes, puts into the cart and buys by worth; half the
users look no further after a click. An item that was looked at and left is an exposure, or a skip
if its worth is far below. The intent drifts to another one after a page with a probability of 0.12.
Visits come with some columns left out: price 15 %, score 30 %, embedding 40 %, brand 15 %.

`python -m palmkit.models.reranker.simulator OUT.jsonl --visits 4000 --seed 1` writes a log;
`--measure MODEL` lets a model order the pages that simulated users then look at.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.log import Row
from palmkit.kits.ranking.schema import Schema

LATENT = 8
CATEGORIES, BRANDS, COLOURS, ITEMS = 12, 40, 8, 1500
GO_ON = 0.93
DRIFT = 0.12
SHUFFLED = 0.3
LEFT_OUT = {"price": 0.15, "score": 0.3, "embedding": 0.4, "brand": 0.15}
SCHEMA = Schema(
    categories=("category", "brand", "colour"),
    embeddings={"embedding": LATENT},
    numbers=("stars",),
    price="price",
    score="score",
)
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Catalogue:
    """The shop's items: float64[items] or [items, LATENT]."""

    category: NDArray[np.int64]
    brand: NDArray[np.int64]
    colour: NDArray[np.int64]
    price: _Array
    quality: _Array
    vectors: _Array

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Catalogue:
        """Return a random shop."""
        category = random.integers(CATEGORIES, size=ITEMS)
        centres = random.standard_normal((CATEGORIES, LATENT))
        vectors = centres[category] + 0.8 * random.standard_normal((ITEMS, LATENT))
        levels = random.normal(3.3, 0.7, CATEGORIES)
        return cls(
            category=category,
            brand=random.integers(BRANDS, size=ITEMS),
            colour=random.integers(COLOURS, size=ITEMS),
            price=np.exp(levels[category] + 0.5 * random.standard_normal(ITEMS)),
            quality=random.standard_normal(ITEMS),
            vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
        )


class Visit:
    """One user's visit: the items on offer and the user's behaviour."""

    def __init__(self, shop: Catalogue, random: np.random.Generator, start: float) -> None:
        """Draw a new user with an intent."""
        self.shop, self.random, self.time = shop, random, start
        self.taste = _direction(random)
        self.brands = random.standard_normal(BRANDS) * (random.random(BRANDS) < 0.4)
        self.usual = random.normal(0, 0.5)
        self.hidden = [name for name, share in LEFT_OUT.items() if random.random() < share]
        self.want()

    def want(self) -> None:
        """Draw another intent."""
        self.aim = int(self.random.integers(ITEMS))
        near = self.shop.vectors[self.aim] + 0.3 * _direction(self.random)
        self.intent = near / np.linalg.norm(near)

    def worth(self, items: NDArray[np.int64]) -> _Array:
        """Return the current worth of each item to this visit, float64[n]."""
        shop = self.shop
        level = math.log(shop.price[self.aim]) + self.usual
        return np.asarray(
            2.2 * (shop.vectors[items] @ self.intent)
            + 1.2 * (shop.category[items] == shop.category[self.aim])
            + 0.9 * self.brands[shop.brand[items]]
            + 0.6 * (shop.vectors[items] @ self.taste)
            - 0.8 * np.abs(np.log(shop.price[items]) - level)
            + 0.5 * shop.quality[items]
            - 1.4
        )

    def page(self, explore: float = 0.0) -> tuple[NDArray[np.int64], list[Row]]:
        """Return items in the server's order, and as the device gets them.

        explore: above 0, no page is shuffled, but each place goes with this probability to any item
        left; rows then contain the server's position and their propensity.
        """
        random, shop = self.random, self.shop
        count = int(random.integers(12, 51))
        # Half of the items on offer are of the category that the user looks for, as after a search.
        alike = np.flatnonzero(shop.category == shop.category[self.aim])
        some = random.choice(alike, min(len(alike), count // 3), replace=False)
        others = np.setdiff1d(random.choice(ITEMS, count, replace=False), some)
        items = np.concatenate([some, others[: count - len(some)]])
        score = (
            shop.vectors[items] @ self.taste
            + 0.5 * self.brands[shop.brand[items]]
            + 0.5 * shop.quality[items]
            + 0.7 * random.standard_normal(len(items))
        )
        order = np.argsort(-score)
        told: list[Row] = [{} for _ in order]
        if explore:
            order, told = _explored(order, explore, random)
        elif random.random() < SHUFFLED:
            order = random.permutation(len(items))
        items, score = items[order], score[order]
        rows: list[Row] = []
        for item, value in zip(items.tolist(), score.tolist(), strict=True):
            row: Row = {
                "id": f"i{item}",
                "category": f"c{shop.category[item]}",
                "brand": f"b{shop.brand[item]}",
                "colour": f"k{shop.colour[item]}",
                "stars": round(float(np.clip(3 + shop.quality[item], 1, 5)), 1),
                "price": round(float(shop.price[item]), 2),
                "score": round(value, 4),
                "embedding": np.round(shop.vectors[item], 4).tolist(),
            }
            row.update((name, None) for name in self.hidden)
            rows.append(row)
        for row, more in zip(rows, told, strict=True):
            row.update(more)
        return items, rows

    def look(self, items: NDArray[np.int64], names: list[str]) -> tuple[list[str], list[Row]]:
        """Return the user's behaviour on a page in this order: ids clicked, and other events."""
        random = self.random
        clicked: list[str] = []
        events: list[Row] = []
        for name, worth in zip(names, self.worth(items).tolist(), strict=True):
            self.time += random.exponential(1.2) + 0.3
            if random.random() < 1 / (1 + math.exp(1 - worth)):
                clicked.append(name)
                seconds = math.exp(2 + worth / 2 + 0.5 * random.standard_normal())
                self.time += seconds
                events.append(self._event("dwell", name, round(seconds, 1)))
                for kind, bar in (("like", 1.5), ("cart", 2.2), ("buy", 3.2)):
                    if random.random() < 1 / (1 + math.exp(2 * (bar - worth))):
                        events.append(self._event(kind, name))
                # Most look no further once they have found something.
                if random.random() < 0.5:
                    break
            else:
                events.append(self._event("skip" if worth < -1.5 else "exposure", name))
            if random.random() > GO_ON:
                break
        self.time += random.exponential(5)
        if random.random() < DRIFT:
            self.want()
        return clicked, events

    def _event(self, kind: str, name: str, value: float | None = None) -> Row:
        found: Row = {"event": kind, "id": name, "time": round(self.time, 1)}
        return found if value is None else {**found, "value": value}


def _direction(random: np.random.Generator) -> _Array:
    vector = random.standard_normal(LATENT)
    return np.asarray(vector / np.linalg.norm(vector))


def _explored(
    order: NDArray[np.int64], rate: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], list[Row]]:
    """Return an order with random items at some places; for each its position and propensity."""
    left = list(enumerate(order.tolist(), 1))
    found: list[int] = []
    told: list[Row] = []
    while left:
        at = int(random.integers(len(left))) if random.random() < rate else 0
        chance = rate / len(left) + (1 - rate) * (at == 0)
        position, row = left.pop(at)
        found.append(row)
        told.append({"position": position, "propensity": round(chance, 6)})
    return np.array(found), told


def simulate(visits: int, seed: int, explore: float = 0.0) -> Iterator[Row]:
    """Yield a log for palmkit.kits.ranking.log: visits, one after the other.

    explore: see Visit.page.
    """
    random = np.random.default_rng(seed)
    shop = Catalogue.drawn(random)
    for number in range(visits):
        visit = Visit(shop, random, 1e6 + number * 1e4)
        for _ in range(int(random.integers(2, 7))):
            items, rows = visit.page(explore)
            by_name = {row["id"]: row for row in rows}
            shown = round(visit.time, 1)
            clicked, events = visit.look(items, [row["id"] for row in rows])
            base: Row = {"session": f"s{number}"}
            yield {**base, "time": shown, "items": rows, "chosen": clicked}
            for event in events:
                known = {k: v for k, v in by_name[event["id"]].items() if v is not None}
                yield {**base, **known, **event}


def measure(model: Path | None, visits: int, seed: int) -> dict[str, dict[str, float]]:
    """Return clicks and purchases a page after the first, for the server's order and a model's.

    model: of palmkit.kits.Reranker; None: the shipped one. The same visits see both.
    """
    from palmkit.kits.ranking.kit import Reranker

    reranker = Reranker(model, SCHEMA)

    def by_server(rows: list[Row], session: Any) -> list[int]:
        return list(range(len(rows)))

    def by_model(rows: list[Row], session: Any) -> list[int]:
        found: list[int] = session.rerank(rows).rows.tolist()
        return found

    orders: dict[str, Callable[[list[Row], Any], list[int]]] = {
        "server": by_server,
        "model": by_model,
    }
    return {name: _visited(order, reranker, visits, seed) for name, order in orders.items()}


def _visited(
    order: Callable[[list[Row], Any], list[int]], reranker: Any, visits: int, seed: int
) -> dict[str, float]:
    """Return what users do if pages are shown in an order, a page after the first."""
    shop = Catalogue.drawn(np.random.default_rng(seed))
    clicks = buys = pages = 0
    for number in range(visits):
        visit = Visit(shop, np.random.default_rng([seed, number]), 1e6)
        session = reranker.session()
        for turn in range(4):
            items, rows = visit.page()
            rows_shown = order(rows, session)
            clicked, events = visit.look(
                items[rows_shown], [str(rows[row]["id"]) for row in rows_shown]
            )
            known = {row["id"]: row for row in rows}
            done = [{"event": "click", "id": name, "time": visit.time} for name in clicked]
            for event in (*events, *done):
                session.observe({**known[event["id"]], **event, "time": visit.time})
            if turn:
                pages += 1
                clicks += len(clicked)
                buys += sum(event["event"] == "buy" for event in events)
    return {"clicks a page": clicks / pages, "purchases a page": buys / pages}


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="a simulated shopping feed")
    parser.add_argument("out", type=Path, help="the log, JSON Lines; the numbers with --measure")
    parser.add_argument("--visits", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--explore", type=float, default=0.0, metavar="P", help="a log for rerank evaluate (0)"
    )
    parser.add_argument("--measure", type=Path, metavar="MODEL", help="let a model order pages")
    options = parser.parse_args(None if arguments is None else list(arguments))
    with replacing(options.out) as part, part.open("w", encoding="utf-8") as file:
        if options.measure:
            json.dump(measure(options.measure, options.visits, options.seed), file, indent=1)
            return
        for row in simulate(options.visits, options.seed, options.explore):
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
