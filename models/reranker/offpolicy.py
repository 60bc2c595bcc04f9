"""Off-policy evaluation: what another policy would have earned, from an exploring one's log.

A log has a row for each item shown: which item, at which place, what it earned and how likely the
logging policy was to show it there. Inverse propensity scoring (IPS) weighs each row by how much
likelier the policy under test is to show that item; its self-normalised form (SNIPS, Swaminathan
and Joachims, 2015) divides by the weights' sum; the doubly robust estimate (DR, Dudik et al., 2011)
adds IPS of the errors of a model to that model's rewards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmkit.engine.errors import TableError
from palmkit.kits.ranking.log import Row
from palmkit.kits.ranking.schema import Schema
from palmkit.kits.ranking.table import Columns

_Doubles = NDArray[np.float64]
FOLDS, RESAMPLES = 5, 1000
# An item's rate of reward counts as if this many more rows had the overall rate.
PRIOR_ROWS = 200.0


@dataclass(frozen=True, eq=False)
class Feedback:
    """The n rows of a log.

    items, places: int64[n], rows of `names` and of `positions`. rewards, propensities: float64[n].
    pages: int64[n], from 0; rows of one page are resampled together.
    """

    names: tuple[str, ...]
    positions: tuple[float, ...]
    items: NDArray[np.int64]
    places: NDArray[np.int64]
    rewards: _Doubles
    propensities: _Doubles
    pages: NDArray[np.int64]

    def rates(self, rows: NDArray[np.int64]) -> _Doubles:
        """Return the reward of an item at a place, from some of the rows: float64[places, items].

        It is the rate of the item times that of the place over the overall rate, each shrunk
        towards the overall rate by PRIOR_ROWS.
        """
        rewards = self.rewards[rows]
        overall = float(rewards.mean()) if len(rows) else 0.0

        def rate(of: NDArray[np.int64], size: int) -> _Doubles:
            earned = np.bincount(of[rows], rewards, size) + PRIOR_ROWS * overall
            return np.asarray(earned / (np.bincount(of[rows], minlength=size) + PRIOR_ROWS))

        by_place = rate(self.places, len(self.positions)) / max(overall, 1e-12)
        return np.outer(by_place, rate(self.items, len(self.names)))


class Choices(NamedTuple):
    """A policy that differs from row to row, by k of its choices; others have probability 0.

    rows, items: int64[k], of Feedback; chances: float64[k].
    """

    rows: NDArray[np.int64]
    items: NDArray[np.int64]
    chances: _Doubles


class Estimate(NamedTuple):
    """A reward a row, and its 95 % interval over resampled logs."""

    value: float
    low: float
    high: float


def read_feedback(
    rows: Iterable[Row], schema: Schema, names: Iterable[str] = (), positions: Iterable[float] = ()
) -> Feedback:
    """Return feedback from a log's id, label, propensity and, if the schema has one, position.

    names, positions: values that come first whether the log has them or not.
    Raises TableError naming row and column for missing values or a propensity outside 0 to 1.
    """
    known = {name: at for at, name in enumerate(names)}
    places = {place: at for at, place in enumerate(positions)}
    items: list[int] = []
    stood: list[int] = []
    rewards: list[float] = []
    chances: list[float] = []
    for number, row in enumerate(rows):
        columns = Columns("log", [row])
        try:
            name = columns.ids(schema.id)[0]
            columns.require(schema.label)
            columns.require(schema.propensity)
            reward = float(columns.numbers(schema.label)[0])
            chance = float(columns.numbers(schema.propensity)[0])
            place = 1.0 if schema.position is None else float(columns.numbers(schema.position)[0])
        except TableError as error:
            raise TableError(str(error).replace("row 0", f"row {number}", 1)) from None
        for column, value, fits in (
            (schema.label, reward, reward == reward),
            (schema.propensity, chance, 0 < chance <= 1),
            (schema.position, place, place == place),
        ):
            if not fits:
                expected = "more than 0, at most 1" if column == schema.propensity else "a number"
                raise TableError(
                    f"log: row {number}, column {column}: expected {expected}: {value}"
                )
        items.append(known.setdefault(name, len(known)))
        stood.append(places.setdefault(place, len(places)))
        rewards.append(reward)
        chances.append(chance)
    if not items:
        raise TableError("log: expected rows, got none")
    return Feedback(
        names=tuple(known),
        positions=tuple(places),
        items=np.array(items, np.int64),
        places=np.array(stood, np.int64),
        rewards=np.array(rewards, np.float64),
        propensities=np.array(chances, np.float64),
        pages=np.arange(len(items)),
    )


def uniform(feedback: Feedback) -> _Doubles:
    """Return the uniform policy, any item anywhere: float64[places, items]."""
    shape = len(feedback.positions), len(feedback.names)
    return np.full(shape, 1 / len(feedback.names))


def shares(feedback: Feedback) -> _Doubles:
    """Return how often a log shows each item at each place: float64[places, items]."""
    shape = len(feedback.positions), len(feedback.names)
    flat = feedback.places * shape[1] + feedback.items
    counts = np.bincount(flat, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def evaluate(
    feedback: Feedback, policy: _Doubles | Choices, clip: float = np.inf, seed: int = 0
) -> dict[str, Any]:
    """Return what a policy would earn a row: IPS, SNIPS and DR, each with an interval.

    policy: the probability that it shows each item: float64[places, items], or Choices if it
    differs from row to row. clip: the largest weight, which makes estimates safer and biased.
    Also "logged", what the logging policy earned; "mean_weight", near 1 if the log could have shown
    all that the policy chooses; "effective_rows" (Kish) of the weights and the largest weight: few
    and large mean that the log says little of this policy.
    """
    count = len(feedback.items)
    weights = np.minimum(_chances(feedback, policy) / feedback.propensities, clip)
    expected, predicted = np.zeros(count), np.zeros(count)
    folds = np.random.default_rng(seed).permutation(feedback.pages.max() + 1) % FOLDS
    for fold in range(FOLDS):
        # Cross-fitting: rates come from other pages than those they are used on.
        is_inside = (folds == fold)[feedback.pages]
        rates = feedback.rates(np.flatnonzero(~is_inside))
        inside = np.flatnonzero(is_inside)
        predicted[inside] = rates[feedback.places[inside], feedback.items[inside]]
        if isinstance(policy, Choices):
            some = np.flatnonzero(is_inside[policy.rows])
            rows, items = policy.rows[some], policy.items[some]
            earned = policy.chances[some] * rates[feedback.places[rows], items]
            expected[inside] = np.bincount(rows, earned, count)[inside]
        else:
            expected[inside] = (policy * rates).sum(axis=1)[feedback.places[inside]]
    gains = weights * feedback.rewards
    robust = expected + weights * (feedback.rewards - predicted)
    # For each page: rewards, their IPS and DR estimates, weights and rows.
    sums = np.stack(
        [
            np.bincount(feedback.pages, each)
            for each in (feedback.rewards, gains, robust, weights, np.ones(count))
        ]
    )

    def estimates(sums: NDArray[Any]) -> _Doubles:
        earned, gained, robust, weight, rows = sums
        return np.array([earned / rows, gained / rows, gained / max(weight, 1e-12), robust / rows])

    random = np.random.default_rng(seed)
    size = sums.shape[1]
    share = np.full(size, 1 / size)
    drawn = np.stack([estimates(sums @ random.multinomial(size, share)) for _ in range(RESAMPLES)])
    values = estimates(sums.sum(axis=1))
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    found: dict[str, Any] = {
        name: Estimate(float(values[at]), float(low[at]), float(high[at]))
        for at, name in enumerate(("logged", "ips", "snips", "dr"))
    }
    squares = float((weights * weights).sum())
    found["mean_weight"] = float(weights.mean())
    found["effective_rows"] = float(weights.sum()) ** 2 / squares if squares else 0.0
    found["largest_weight"] = float(weights.max())
    return found


def _chances(feedback: Feedback, policy: _Doubles | Choices) -> _Doubles:
    """Return the probability of a policy to show what was shown: float64[n]."""
    if not isinstance(policy, Choices):
        return np.asarray(policy[feedback.places, feedback.items])
    is_shown = feedback.items[policy.rows] == policy.items
    chances = policy.chances * is_shown
    return np.asarray(np.bincount(policy.rows, chances, len(feedback.items)), np.float64)
