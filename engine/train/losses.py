"""Losses: each writes nodes that make one number of predictions and targets, to be minimised.

Prediction, target and weight have the same shape. Ranking losses take the last axis as the list. A
weight of 0 leaves an element out, as where lists differ in length; each loss says what other
weights mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from palmkit.engine.train.tape import Tape

Loss: TypeAlias = Callable[[Tape, str, str, str], str]

# Subtracted from scores that do not count, so that their share of a softmax is zero.
_FAR = 1e9


def mean_squared_error(tape: Tape, prediction: str, target: str, weight: str) -> str:
    """Write the weighted mean of (prediction - target)²."""
    off = tape.add("sub", prediction, target)
    return _mean(tape, tape.add("mul", off, off), weight)


def binary_cross_entropy(tape: Tape, prediction: str, target: str, weight: str) -> str:
    """Write the weighted mean of the binary cross entropies.

    prediction: logits, before any sigmoid. target: probabilities, 0..1.
    """
    cost = tape.add("sub", tape.add("softplus", prediction), tape.add("mul", prediction, target))
    return _mean(tape, cost, weight)


def cross_entropy(tape: Tape, prediction: str, target: str, weight: str) -> str:
    """Write the mean over rows of the cross entropy of a choice among the last axis.

    prediction: logits. target: probabilities that sum to 1. weight: that of the chosen class in
    each row; a row of zeros does not count.
    """
    last = len(tape.dims(prediction)) - 1
    logs = tape.add("log_softmax", prediction, axis=last)
    return _mean(tape, tape.add("neg", logs), tape.add("mul", target, weight))


def listwise(tape: Tape, prediction: str, target: str, weight: str) -> str:
    """Write the mean over lists of the cross entropy of relevance shares and softmax of scores.

    ListNet's top one (Cao et al., Learning to Rank: From Pairwise Approach to Listwise Approach,
    2007). prediction: scores. target: relevance, 0 or more. weight: 0 or 1. A list without
    relevance does not count.
    """
    last = len(tape.dims(prediction)) - 1
    one = tape.number(1.0, weight)
    gone = tape.add("mul", tape.add("sub", one, weight), tape.number(_FAR, weight))
    logs = tape.add("log_softmax", tape.add("sub", prediction, gone), axis=last)
    relevance = tape.add("mul", target, weight)
    total = tape.sum(relevance, [last], keepdims=True)
    lists = tape.add("sign", total)
    share = tape.add("div", relevance, tape.add("add", total, tape.add("sub", one, lists)))
    counted = tape.add("mul", logs, weight)
    cost = _total(tape, tape.add("mul", counted, share))
    return tape.add("neg", tape.add("div", cost, _at_least_one(tape, _total(tape, lists))))


def pairwise(tape: Tape, prediction: str, target: str, weight: str) -> str:
    """Write the mean of log(1 + exp(-(better - worse))) over pairs of different relevance.

    RankNet (Burges et al., Learning to Rank using Gradient Descent, 2005). prediction: scores.
    target: relevance. weight: a pair counts by the product of its two.
    """
    dims = tape.dims(prediction)

    def both(value: str) -> tuple[str, str]:
        return tape.reshape(value, (*dims, 1)), tape.reshape(value, (*dims[:-1], 1, dims[-1]))

    ahead = tape.add("sub", *both(prediction))
    better = tape.add("sign", tape.add("relu", tape.add("sub", *both(target))))
    counted = tape.add("mul", better, tape.add("mul", *both(weight)))
    cost = tape.add("softplus", tape.add("neg", ahead))
    return _mean(tape, cost, counted)


def _total(tape: Tape, value: str) -> str:
    return tape.sum(value, range(len(tape.dims(value)))) if tape.dims(value) else value


def _at_least_one(tape: Tape, count: str) -> str:
    """Return the count, or 1 where it is 0; the dividend is 0 then."""
    none = tape.add("sub", tape.number(1.0, count), tape.add("sign", count))
    return tape.add("add", count, none)


def _mean(tape: Tape, cost: str, weight: str) -> str:
    total = _total(tape, tape.add("mul", cost, weight))
    return tape.add("div", total, _at_least_one(tape, _total(tape, weight)))


LOSSES: dict[str, Loss] = {
    "binary_cross_entropy": binary_cross_entropy,
    "cross_entropy": cross_entropy,
    "listwise": listwise,
    "mean_squared_error": mean_squared_error,
    "pairwise": pairwise,
}
