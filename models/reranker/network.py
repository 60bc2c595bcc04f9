"""The network: each item attends to what the user did and to the page round it.

Attention from items to events is that of the Deep Interest Network (Zhou et al., 2018) and EdgeRec
(Gong et al., arXiv 2005.08416), with what an item and an event have in common as a bias, so that no
embedding of an item's id is needed. The page is seen through a few learned queries (Set
Transformer, Lee et al., 2019), in time linear in its length; PRM (Pei et al., 2019) takes its
square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

# Added to the attention scores of missing items and events.
ABSENT = -1e4


@dataclass(frozen=True)
class Sizes:
    """Sizes of the network.

    features, codes, traits, categories, links: widths of Inputs. words: rows of the embedding;
    width: channels; heads: of attention; seeds: queries of the page; members: of the ensemble.
    """

    features: int
    codes: int
    traits: int
    categories: int
    links: int
    words: int
    width: int = 64
    heads: int = 4
    seeds: int = 4
    embedding: int = 8
    members: int = 8
    dropout: float = 0.1


class Batch(NamedTuple):
    """A batch of b pages with n items and m events, filled up with zeros.

    items: float32[b, n, features], scaled. item_codes: int64[b, n, codes]. events: float32[b, m,
    traits]; event_codes: int64[b, m, categories]; links: float32[b, links, n, m]. present:
    float32[b, n], 1 for an item; happened: float32[b, m], 1 for an event.
    """

    items: Tensor
    item_codes: Tensor
    events: Tensor
    event_codes: Tensor
    links: Tensor
    present: Tensor
    happened: Tensor


class RerankNetwork(nn.Module):
    """A network that gives scores float32[b, n], of which only differences within a page count.

    The last layers are an ensemble that shares its weights except for signs and scales (TabM,
    Gorishniy et al., 2024): on tables of this size it is worth about half of a real one.
    """

    def __init__(self, sizes: Sizes) -> None:
        """Start from random weights, the last layer from zero."""
        super().__init__()
        self.sizes = sizes
        width, heads = sizes.width, sizes.heads
        self.words = nn.Embedding(max(sizes.words, 1), sizes.embedding, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.05)
        self.item = nn.Linear(sizes.features + sizes.codes * sizes.embedding, width)
        self.event = nn.Linear(sizes.traits + sizes.categories * sizes.embedding, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.link = nn.Linear(sizes.links, heads, bias=False)
        # Attention that starts at the item's own events is learned much faster.
        with torch.no_grad():
            self.link.weight[:, 0] += torch.linspace(0, 4, heads)
        self.linked = nn.Linear(sizes.links * heads, width)
        self.seeds = nn.Parameter(torch.randn(sizes.seeds, width) * 0.3)
        self.page_key = nn.Linear(width, width)
        self.page_value = nn.Linear(width, width)
        self.page_out = nn.Linear(sizes.seeds * width, width)
        self.merge = nn.Linear(4 * width, width)
        self.again = nn.Linear(sizes.features, width, bias=False)
        members = sizes.members
        self.signs = nn.Parameter(torch.randint(0, 2, (members, 1, width)).float() * 2 - 1)
        self.shifts = nn.Parameter(torch.zeros(members, 1, width))
        self.hidden = nn.Linear(width, width)
        self.scales = nn.Parameter(torch.ones(members, 1, width))
        self.weights = nn.Parameter(torch.randn(members, 1, width) * 0.01)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, batch: Batch) -> Tensor:
        """Return the members' mean, in the same order as the mean of log-shares of a page."""
        return self.each(batch).mean(dim=1)

    def each(self, batch: Batch) -> Tensor:
        """Return each member's scores, float32[b, members, n]."""
        return self.members(self.merged(batch))

    def merged(self, batch: Batch) -> Tensor:
        """Return the features of each item before the last layers, float32[b, n, width]."""
        sizes = self.sizes
        width, heads = sizes.width, sizes.heads
        each = width // heads
        b, n = batch.items.shape[0], batch.items.shape[1]
        m = batch.events.shape[1]
        x, events = batch.items, batch.events
        if sizes.codes:
            x = torch.cat([x, self.words(batch.item_codes).reshape(b, n, -1)], dim=2)
        if sizes.categories:
            seen = self.words(batch.event_codes).reshape(b, m, -1)
            events = torch.cat([events, seen], dim=2)
        x = self.dropout(functional.relu(self.item(x)))
        y = functional.relu(self.event(events))
        query = self.query(x).reshape(b, n, heads, each).transpose(1, 2)
        key = self.key(y).reshape(b, m, heads, each).permute(0, 2, 3, 1)
        value = self.value(y).reshape(b, m, heads, each).transpose(1, 2)
        flat = batch.links.reshape(b, sizes.links, n * m)
        bias = torch.matmul(self.link.weight, flat).reshape(b, heads, n, m)
        absent = ((1 - batch.happened) * ABSENT).reshape(b, 1, 1, m)
        share = (torch.matmul(query, key) * each**-0.5 + bias + absent).softmax(dim=3)
        done = torch.matmul(share, value).transpose(1, 2).reshape(b, n, width)
        # How much of the attended events is linked to the item, and how.
        rows = share.permute(0, 2, 1, 3)
        common = torch.matmul(rows, batch.links.permute(0, 2, 3, 1)).reshape(b, n, -1)
        around = torch.cat([x, done, functional.relu(self.linked(common))], dim=2)
        context = self._page(x, batch.present)
        context = context.reshape(b, 1, width).expand(b, n, width)
        merged: Tensor = self.merge(torch.cat([around, context], dim=2)) + self.again(batch.items)
        return merged

    def members(self, merged: Tensor) -> Tensor:
        """Return each member's scores for these features, float32[b, members, n]."""
        z = self.dropout(functional.relu(merged.unsqueeze(1) * self.signs + self.shifts))
        z = z + self.dropout(functional.relu(self.hidden(z) * self.scales))
        scores: Tensor = (z * self.weights).sum(dim=3)
        return scores

    def _page(self, x: Tensor, present: Tensor) -> Tensor:
        """Return a summary of the page, float32[b, width]."""
        b, n = present.shape
        absent = ((1 - present) * ABSENT).reshape(b, 1, n)
        share = torch.matmul(self.seeds, self.page_key(x).transpose(1, 2))
        share = (share * self.sizes.width**-0.5 + absent).softmax(dim=2)
        seen = torch.matmul(share, self.page_value(x)).reshape(b, -1)
        return functional.relu(self.page_out(seen))
