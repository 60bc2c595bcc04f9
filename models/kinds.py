"""How pictures come out by kind: the mean, the worst tenth and the share of failures.

A mean hides the picture that a user remembers. Every evaluation whose pictures each have a number,
0 to 1, that says how well they came out, such as the IoU of a mask, or an error, such as the
distance of points, puts it in a Tally with the picture's kinds, and tables and metrics.json show
what `Tally.spreads` returns. Model files leave it out (`without_pictures`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Below this, a picture failed; of errors it is those above a limit that did.
FAILED = 0.5
# Of the pictures of a kind, rounded up, those that came out worst.
WORST = 0.1
ALL = "all"
# The parts of the pictures that no network was trained on.
PARTS = ("dev", "validation")
DARK, BRIGHT = 85, 150
# Sides of what is to be found, as a share of the picture's longer side.
FAR, NEAR = 1 / 16, 1 / 4
TURNS = (0, 20, 40, 70, 100)


class Spread(NamedTuple):
    """How the pictures of a kind came out: how many there are, and numbers of them.

    mean: of all; worst_tenth: the mean of the worst tenth; failed: the share of those that failed.
    """

    pictures: int
    mean: float
    worst_tenth: float
    failed: float


def spread(values: Sequence[float], limit: float | None = None) -> Spread:
    """Return how pictures with these numbers came out.

    limit: the numbers are errors: the largest are the worst, and those above the limit failed.
    Raises ValueError if there is none, or if one is not a number.
    """
    ascending = np.sort(np.asarray(values, np.float64))
    if not len(ascending) or not np.isfinite(ascending).all():
        raise ValueError(f"expected finite numbers of at least one picture, got {list(values)}")
    count = math.ceil(WORST * len(ascending))
    worst = ascending[:count] if limit is None else ascending[-count:]
    failed = float((ascending < FAILED if limit is None else ascending > limit).mean())
    return Spread(len(ascending), float(ascending.mean()), float(worst.mean()), failed)


class Tally:
    """The numbers of pictures by kind; a picture may be of several, and is always one of ALL."""

    def __init__(self, limit: float | None = None) -> None:
        """Begin with no picture.

        limit: see `spread`.
        """
        self._limit = limit
        self._values: dict[str, list[float]] = {}

    def add(self, kinds: Iterable[str], value: float) -> None:
        """Count a picture in all of its kinds."""
        for kind in dict.fromkeys((ALL, *kinds)):
            self._values.setdefault(kind, []).append(value)

    def spreads(self) -> dict[str, Spread]:
        """Return how the pictures of each kind came out, in the order of `order`."""
        kinds = sorted(self._values, key=order)
        return {kind: spread(self._values[kind], self._limit) for kind in kinds}


def rounded(spreads: Mapping[str, Spread]) -> dict[str, dict[str, float]]:
    """Return what goes into metrics.json: by kind, the numbers by name."""
    return {
        kind: {name: round(value, 4) for name, value in each._asdict().items()}
        for kind, each in spreads.items()
    }


def without_pictures(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics that a model file holds: how pictures came out is for cards."""
    return {
        name: without_pictures(value) if isinstance(value, Mapping) else value
        for name, value in metrics.items()
        if name not in ("pictures", "chosen_on")
    }


def lines(tallies: Mapping[str, Mapping[str, Spread]], what: str) -> Iterator[str]:
    """Yield a Markdown table: a row a kind, and of each contender three columns.

    tallies: by contender and kind, all of the same pictures. what: the name of the number.
    """
    heads = ("mean", "worst tenth", "failed")
    columns = [f"{name}: {head}" for name in tallies for head in heads]
    yield f"| {what} | pictures | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 2) + "|"
    first = next(iter(tallies.values()))
    for kind in first:
        cells = [f"{value:.3f}" for each in tallies.values() for value in each[kind][1:]]
        yield f"| {kind} | {first[kind].pictures} | " + " | ".join(cells) + " |"


def between(value: float, steps: Sequence[int], unit: str) -> str:
    """Return the kind of a value: the unit, and the steps that it lies between.

    There may be values from the last step on.
    """
    row = max(row for row, step in enumerate(steps) if step <= value)
    if row + 1 == len(steps):
        return f"{unit} {steps[row]} and more"
    low, high = steps[row], steps[row + 1] - 1
    return f"{unit} {low}" if low == high else f"{unit} {low} to {high}"


def light(values: NDArray[Any]) -> str:
    """Return the kind by the light on the pixels of an area, 0..255, [..., 3]."""
    mean = float(np.mean(values))
    return f"light {'dark' if mean < DARK else 'middle' if mean < BRIGHT else 'bright'}"


def light_on(picture: NDArray[Any], points: NDArray[Any]) -> str:
    """Return the kind by the light in the box round points[n, 2] of a picture[h, w, 3]."""
    last = np.asarray(picture.shape[1::-1]) - 1
    low = np.clip(np.floor(points.min(axis=0)), 0, last).astype(int)
    high = np.ceil(points.max(axis=0)).clip(0).astype(int)
    return light(picture[low[1] : high[1] + 1, low[0] : high[0] + 1])


def distance(sides: Sequence[float] | NDArray[Any], picture: NDArray[Any]) -> str:
    """Return the kind by the distance of things, from their longer sides in a picture[h, w, 3].

    What lies in the middle of the sides counts, so that one face before a crowd does not.
    """
    share = float(np.median(sides)) / max(picture.shape[:2])
    return f"distance {'far' if share < FAR else 'middle' if share < NEAR else 'near'}"


def told_turn(file: str) -> int | None:
    """Return the degrees that a person of fasseg_multipose was told to look aside by."""
    found = re.search(r"fasseg_multipose/.*[+-]\d+([+-]\d+)\.", file)
    return abs(int(found[1])) if found else None


def view(file: str) -> list[str]:
    """Return the kind by where a person of fasseg_multipose looks; none of other pictures."""
    turn = told_turn(file)
    return [] if turn is None else [between(turn, TURNS, "turn")]


_WORDS = ("far", "dark", "middle", "bright", "near", "")


def order(kind: str) -> tuple[bool, str, float]:
    """Return a sort key: all pictures, then by sort of kind, then ascending."""
    sort, _, rest = kind.partition(" ")
    number = re.search(r"\d+", rest)
    place = float(number[0]) if number else float(_WORDS.index(rest)) if rest in _WORDS else 0.0
    return kind != ALL, sort, place
