"""Training the network on a log that dataset.py encoded: early stopping, averaged weights.

torch is imported by what trains or asks a network, so that trees alone can do without it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palmkit.models.reranker.dataset import Lists, Scaling
from palmkit.models.reranker.measures import measure

if TYPE_CHECKING:
    from torch import nn

    from palmkit.models.reranker.network import RerankNetwork

_Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Recipe:
    """Hyperparameters of the training.

    patience: stop after so many epochs without a better MRR on the held-out pages. averaging: decay
    of the averaged weights from step to step. members: of the network's ensemble.
    """

    epochs: int = 12
    patience: int = 3
    batch: int = 64
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.3
    width: int = 64
    averaging: float = 0.995
    pairwise: float = 0.0
    members: int = 8
    seed: int = 0


@dataclass
class Progress:
    """For each epoch: mean training loss, and the measures on the held-out pages."""

    losses: list[float] = field(default_factory=list[float])
    held_out: list[dict[str, float]] = field(default_factory=list[dict[str, float]])


class Parts(NamedTuple):
    """Rows of Lists: to train on, to stop by, to report on."""

    train: _Rows
    held_out: _Rows
    test: _Rows


class Trained(NamedTuple):
    """The network of the best epoch."""

    network: RerankNetwork
    scaling: Scaling
    progress: Progress


def split(starts: NDArray[np.float64], held_out: float = 0.1, test: float = 0.1) -> Parts:
    """Split by the start of sessions: the last to report on, those before to stop by."""
    order = np.argsort(starts, kind="stable")
    begin = int(len(order) * (1 - test))
    stop = int(begin * (1 - held_out))
    return Parts(order[:stop], order[stop:begin], order[begin:])


def score(
    network: RerankNetwork, lists: Lists, rows: _Rows, scaling: Scaling
) -> list[NDArray[np.float32]]:
    """Return the scores of each page's items."""
    import torch

    from palmkit.models.reranker.batches import batches

    network.eval()
    order = np.argsort(lists.lengths[rows], kind="stable")
    found: dict[int, NDArray[np.float32]] = {}
    with torch.no_grad():
        at = 0
        for batch, _ in batches(lists, rows[order], 256, scaling):
            scores = network(batch).numpy()
            for each in scores:
                place = int(order[at])
                found[place] = each[: lists.counts[rows[place]]]
                at += 1
    return [found[place] for place in range(len(rows))]


def train(
    lists: Lists,
    parts: Parts,
    words: int,
    recipe: Recipe,
    report: Callable[[int, int], None] = lambda step, steps: None,
) -> Trained:
    """Train until the held-out pages stop improving; without any, all epochs.

    words: codes in the vocabulary. report: called at each step.
    """
    import torch
    from torch import nn

    from palmkit.models.reranker.batches import batches, listwise_loss, pairwise_loss
    from palmkit.models.reranker.network import RerankNetwork, Sizes

    random = np.random.default_rng(recipe.seed)
    torch.manual_seed(recipe.seed)
    scaling = Scaling.of(lists[int(row)] for row in parts.train)
    first = lists[0].inputs
    network = RerankNetwork(
        Sizes(
            features=first.items.shape[1],
            codes=first.item_codes.shape[1],
            traits=first.events.shape[1],
            categories=first.event_codes.shape[1],
            links=len(first.links),
            words=1 + words,
            width=recipe.width,
            dropout=recipe.dropout,
            members=recipe.members,
        )
    )
    averaged = copy.deepcopy(network)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    steps = recipe.epochs * math.ceil(len(parts.train) / recipe.batch)
    labels = [lists[int(row)].labels for row in parts.held_out]
    progress, best, step = Progress(), copy.deepcopy(network), 0
    for _ in range(recipe.epochs):
        network.train()
        losses: list[float] = []
        for rows in _shuffled(parts.train, lists.lengths, recipe.batch, random):
            batch, chosen = next(batches(lists, rows, len(rows), scaling))
            rate = 0.5 + 0.5 * math.cos(math.pi * step / steps)
            for group in optimiser.param_groups:
                group["lr"] = recipe.learning_rate * min(1.0, (step + 1) / 100) * rate
            scores = network.each(batch)
            loss = listwise_loss(scores, chosen, batch.present)
            if recipe.pairwise:
                loss = loss + recipe.pairwise * pairwise_loss(scores, chosen, batch.present)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            step += 1
            _average(averaged, network, min(recipe.averaging, (1 + step) / (10 + step)))
            losses.append(float(loss.detach()))
            report(step, steps)
        progress.losses.append(float(np.mean(losses)))
        if not labels:
            best = averaged
            continue
        found = measure(score(averaged, lists, parts.held_out, scaling), labels)
        if not progress.held_out or found["mrr"] > max(x["mrr"] for x in progress.held_out):
            best = copy.deepcopy(averaged)
        progress.held_out.append(found)
        ranks = [each["mrr"] for each in progress.held_out]
        if len(ranks) - int(np.argmax(ranks)) > recipe.patience:
            break
    return Trained(best, scaling, progress)


def _average(averaged: nn.Module, network: nn.Module, share: float) -> None:
    import torch

    with torch.no_grad():
        for old, new in zip(averaged.parameters(), network.parameters(), strict=True):
            old.lerp_(new, 1 - share)


def _shuffled(
    rows: _Rows, lengths: NDArray[np.int64], size: int, random: np.random.Generator
) -> Sequence[_Rows]:
    """Return batches in random order, of pages with similar numbers of events, to limit padding."""
    mixed = random.permutation(rows)
    found: list[_Rows] = []
    for start in range(0, len(mixed), size * 16):
        some = mixed[start : start + size * 16]
        some = some[np.argsort(lengths[some], kind="stable")]
        found += [some[at : at + size] for at in range(0, len(some), size)]
    random.shuffle(found)
    return found
