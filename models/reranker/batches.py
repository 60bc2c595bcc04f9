"""Batches of pages of different lengths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from palmkit.kits.ranking.features import Inputs
from palmkit.models.reranker.dataset import Example, Scaling
from palmkit.models.reranker.network import Batch


def collate(inputs: Sequence[Inputs]) -> Batch:
    """Return pages as one batch; missing items and events are zeros."""
    count = max(len(each.items) for each in inputs)
    length = max(len(each.events) for each in inputs)
    first, size = inputs[0], len(inputs)

    def room(*shape: int, type: Any = np.float32) -> NDArray[Any]:
        return np.zeros((size, *shape), type)

    items = room(count, first.items.shape[1])
    item_codes = room(count, first.item_codes.shape[1], type=np.int64)
    events = room(length, first.events.shape[1])
    event_codes = room(length, first.event_codes.shape[1], type=np.int64)
    links = room(len(first.links), count, length)
    present, happened = room(count), room(length)
    for row, each in enumerate(inputs):
        n, m = len(each.items), len(each.events)
        items[row, :n] = each.items
        item_codes[row, :n] = each.item_codes
        events[row, :m] = each.events
        event_codes[row, :m] = each.event_codes
        links[row, :, :n, :m] = each.links
        present[row, :n] = 1
        happened[row, :m] = 1
    arrays = (items, item_codes, events, event_codes, links, present, happened)
    return Batch(*(torch.from_numpy(array) for array in arrays))


def labels_of(examples: Sequence[Example], count: int) -> Tensor:
    """Return the chosen items as shares that add up to one, float32[b, n]."""
    found = np.zeros((len(examples), count), np.float32)
    for row, example in enumerate(examples):
        found[row, : len(example.labels)] = example.labels / max(example.labels.sum(), 1)
    return torch.from_numpy(found)


def batches(
    examples: Sequence[Example], rows: NDArray[np.int64], size: int, scaling: Scaling
) -> Iterator[tuple[Batch, Tensor]]:
    """Yield batches of pages and their labels, grouping pages with similar numbers of events."""
    for start in range(0, len(rows), size):
        chosen = [examples[int(row)] for row in rows[start : start + size]]
        batch = collate([scaling.of_items(example.inputs) for example in chosen])
        yield batch, labels_of(chosen, batch.items.shape[1])


def listwise_loss(scores: Tensor, labels: Tensor, present: Tensor) -> Tensor:
    """Return the cross entropy of the choice and the softmax over the page (ListNet, Cao 2007).

    scores: float32[b, members, n]; the mean over members is taken. labels, present: float32[b, n].
    """
    masked = scores + ((1 - present) * -1e4).unsqueeze(1)
    return -(labels.unsqueeze(1) * masked.log_softmax(dim=2)).sum(dim=2).mean()


def pairwise_loss(scores: Tensor, labels: Tensor, present: Tensor) -> Tensor:
    """Return the mean over pages of the pairwise loss of items not chosen (RankNet).

    Arguments as for listwise_loss; the chosen items count by their mean score.
    """
    chosen = (scores * labels.unsqueeze(1)).sum(dim=2, keepdim=True)
    left = (present * (labels <= 0)).unsqueeze(1)
    costs = (functional.softplus(scores - chosen) * left).sum(dim=2)
    return (costs / present.sum(dim=1, keepdim=True)).mean()
