"""The gain of learning on the device, for simulated users whose taste drifts.

A user comes for 16 visits of eight pages to the simulator's shop. Between visits the taste drifts
(the latent direction turns by some 17 degrees, one brand in twelve is seen anew, the usual price
moves by 0.15 in log), within a visit the intent drifts as ever. Users of the kind "recipe" are
those that the shipped model learned from, who mostly want what the visit is for; users of "habit"
weigh their lasting taste four times as much and the intent a quarter. The user sees each page as
the shipped model orders it, in a session that learns nothing. A second session observes the same
and learns after each visit; both order each page before anything of it is known. Measured is the
NDCG@10 of both orders, for what the user would click if every item were looked at.

`python -m palmkit.models.reranker.personal OUT.json --users 100 --kind habit`; with --trivago
SESSIONS.csv.gz the sessions of trivago that have more than 12 lists, each list after the twelfth by
MRR without and with what was learned from those before it.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.replacing import replacing
from palmkit.kits.ranking.kit import MEMORY_BYTES, Reranker
from palmkit.kits.ranking.learning import LEAST_PAGES
from palmkit.kits.ranking.log import Row
from palmkit.kits.ranking.session import Session
from palmkit.models.reranker.measures import ndcg, reciprocal_rank
from palmkit.models.reranker.simulator import BRANDS, SCHEMA, Catalogue, Visit

VISITS, PAGES = 16, 8
TURN, ANEW, SHIFT = 0.3, 1 / 12, 0.15
# How much more the lasting taste counts for a user of habit, and how much the visit's intent.
HABIT, INTENT = 4.0, 0.25
RESAMPLES = 2000


class Habitual(Visit):
    """A user of habit, for whom lasting taste counts for more than the visit's intent."""

    def worth(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the current worth of each item to this visit, float64[n]; see the simulator."""
        shop = self.shop
        return np.asarray(
            INTENT * 2.2 * (shop.vectors[items] @ self.intent)
            + INTENT * 1.2 * (shop.category[items] == shop.category[self.aim])
            + HABIT * 0.9 * self.brands[shop.brand[items]]
            + HABIT * 0.6 * (shop.vectors[items] @ self.taste)
            - 0.8 * np.abs(np.log(shop.price[items]) - math.log(shop.price[self.aim]) - self.usual)
            + 0.5 * shop.quality[items]
            - 1.4
        )


USERS = {"recipe": Visit, "habit": Habitual}


def drift(user: Visit) -> None:
    """Change a user's taste until the next visit."""
    random = user.random
    turned = user.taste + TURN * _direction(random, len(user.taste))
    user.taste = turned / np.linalg.norm(turned)
    anew = random.random(BRANDS) < ANEW
    fresh = random.standard_normal(BRANDS) * (random.random(BRANDS) < 0.4)
    user.brands = np.where(anew, fresh, user.brands)
    user.usual += random.normal(0, SHIFT)
    user.want()


def _direction(random: np.random.Generator, size: int) -> NDArray[np.float64]:
    vector = random.standard_normal(size)
    return np.asarray(vector / np.linalg.norm(vector))


def follow(
    user: Visit, plain: Session, learning: Session, time_s: float
) -> tuple[list[tuple[float, float]], list[dict[str, Any]]]:
    """Return NDCG@10 of each page, without and with learning; and each learning's result."""
    gains: list[tuple[float, float]] = []
    told: list[dict[str, Any]] = []
    for visit in range(VISITS):
        if visit:
            drift(user)
        for _ in range(PAGES):
            items, rows = user.page()
            names = [str(row["id"]) for row in rows]
            shown = plain.rerank(rows)
            learned = learning.rerank(rows)
            chances = 1 / (1 + np.exp(1 - user.worth(items)))
            wanted = (user.random.random(len(items)) < chances).astype(np.float32)
            if wanted.any():
                gains.append((_gain(shown.rows, wanted), _gain(learned.rows, wanted)))
            _look(user, items[shown.rows], [names[row] for row in shown.rows], rows,
                  (plain, learning))  # fmt: skip
        told.append(learning.learn(time_s).to_dict())
    return gains, told


def _gain(order: NDArray[np.int64], wanted: NDArray[np.float32]) -> float:
    return ndcg(-np.arange(len(order)), wanted[order])


def _look(
    user: Visit,
    items: NDArray[np.int64],
    names: list[str],
    rows: list[Row],
    sessions: Iterable[Session],
) -> None:
    clicked, events = user.look(items, names)
    known = {str(row["id"]): row for row in rows}
    done = [{"event": "click", "id": name, "time": user.time} for name in clicked]
    for session in sessions:
        session.observe([{**known[str(e["id"])], **e, "time": user.time} for e in (*events, *done)])


def measure(
    users: int, seed: int, kind: str = "habit", time_s: float = 0.05, model: Path | None = None
) -> dict[str, Any]:
    """Return NDCG@10 without and with learning, over pages after the first learning.

    The gain has its 95 % interval over resampled users.
    """
    reranker = Reranker(model, SCHEMA)
    shop = Catalogue.drawn(np.random.default_rng(seed))
    by_user: list[tuple[float, float]] = []
    told: list[dict[str, Any]] = []
    for number in range(users):
        user = USERS[kind](shop, np.random.default_rng([seed, number]), 1e6)
        gains, calls = follow(user, reranker.session(), reranker.session(learns=True), time_s)
        late = np.array(gains[len(gains) // 3 :])
        by_user.append((float(late[:, 0].mean()), float(late[:, 1].mean())))
        told += calls
    both = np.array(by_user)
    gain = both[:, 1] - both[:, 0]
    random = np.random.default_rng(seed)
    spread = [gain[random.integers(users, size=users)].mean() for _ in range(RESAMPLES)]
    tried = [each for each in told if each["steps"]]
    return {
        "users": users,
        "pages a user": VISITS * PAGES,
        "ndcg10 without": float(both[:, 0].mean()),
        "ndcg10 with": float(both[:, 1].mean()),
        "gain": float(gain.mean()),
        "gain 95 %": [float(each) for each in np.quantile(spread, (0.025, 0.975))],
        "users with a gain": float((gain > 0).mean()),
        "learnings tried": len(tried),
        "learnings kept": float(np.mean([each["kept"] for each in tried])) if tried else 0.0,
        "steps": float(np.mean([each["steps"] for each in tried])) if tried else 0.0,
        "seconds at most": max((each["seconds"] for each in told), default=0.0),
        "seconds allowed": time_s,
        "bytes at most": max((each["memory_bytes"] for each in told), default=0),
        "bytes allowed": MEMORY_BYTES,
    }


def measure_sessions(path: Path, time_s: float = 0.05) -> dict[str, Any]:
    """Measure real lists, after the twelfth of a session, with and without learning."""
    from palmkit.kits.ranking.log import read_pages
    from palmkit.models.reranker.trivago import SCHEMA as LISTS
    from palmkit.models.reranker.trivago import rows

    by_session: dict[str, list[Any]] = {}
    for page in read_pages(rows(path), LISTS):
        if any(page.labels):
            by_session.setdefault(page.session, []).append(page)
    reranker = Reranker(None, LISTS)
    ranks: list[tuple[float, float]] = []
    kept = 0
    for pages in by_session.values():
        if len(pages) <= LEAST_PAGES:
            continue
        session = reranker.session(learns=True)
        for number, page in enumerate(pages):
            context = {"time": page.time}
            shown = session.rerank(page.items, context)
            plain = reranker.rerank(page.items, page.history, context)
            labels = np.array(page.labels, np.float32)
            if number >= LEAST_PAGES:
                found = (_rank(plain.rows, labels), _rank(shown.rows, labels))
                ranks.append(found)
            at = int(labels.argmax())
            session.observe({"event": "clickout item", "time": page.time, **page.items[at]})
            kept += session.learn(time_s).kept
    both = np.array(ranks)
    return {
        "sessions": sum(len(each) > LEAST_PAGES for each in by_session.values()),
        "lists": len(both),
        "mrr without": float(both[:, 0].mean()),
        "mrr with": float(both[:, 1].mean()),
        "learnings kept": kept,
    }


def _rank(order: NDArray[np.int64], labels: NDArray[np.float32]) -> float:
    return reciprocal_rank(-np.arange(len(order)), labels[order])


def main(arguments: Iterable[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="what learning on the device is worth")
    parser.add_argument("out", type=Path, help="the numbers, JSON")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=50, help="a call (50)")
    parser.add_argument("--model", type=Path, help="a model of one's own (the one shipped)")
    parser.add_argument("--kind", choices=[*USERS], default="habit", help="of users (habit)")
    parser.add_argument("--trivago", type=Path, metavar="FILE", help="people instead of users")
    options = parser.parse_args(None if arguments is None else list(arguments))
    time_s = options.milliseconds / 1e3
    if options.trivago:
        found = measure_sessions(options.trivago, time_s)
    else:
        found = measure(options.users, options.seed, options.kind, time_s, options.model)
    with replacing(options.out) as part:
        part.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
