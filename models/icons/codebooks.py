"""Weights that take few different values, learned while training goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from palmkit.models.icons.network import SqueezeNet

ROUNDS = 30
# What a layer's codebook may have.
BITS = (2, 3, 4, 5, 6)


class Codebook(nn.Module):
    """Gives each weight that is not zero the nearest of a few values; zeros stay.

    The values follow the weights, which the gradient moves as if they were used as they are. With
    `fixed` assignments only the values learn, each by the sum of its weights' gradients (Han et
    al., Deep Compression, 2015).
    """

    def __init__(self, weight: Tensor, bits: int, fixed: bool = False) -> None:
        """bits: one value is left to zero; the first are spread evenly from least to greatest."""
        super().__init__()
        self.mask: Tensor
        self.register_buffer("mask", (weight != 0).float())
        self.places: Tensor
        self.register_buffer("places", self.mask.flatten().nonzero()[:, 0])
        there = weight.detach().flatten()[self.places].float()
        count = min(2**bits - 1, max(len(set(there.tolist())), 1))
        low, high = (there.min(), there.max()) if len(there) else (weight.sum(), weight.sum())
        values = torch.lerp(low, high, torch.linspace(0, 1, count, device=weight.device))
        for _ in range(ROUNDS):
            values = self._moved(values, there)
        self.values = nn.Parameter(values, requires_grad=fixed)
        self.fixed = fixed
        self.nearest: Tensor
        self.register_buffer("nearest", _nearest(values, there))

    @staticmethod
    def _moved(values: Tensor, there: Tensor) -> Tensor:
        """One round of Lloyd's; a value that nothing is near stays."""
        nearest = _nearest(values, there)
        count = torch.zeros_like(values).index_add_(0, nearest, torch.ones_like(there))
        total = torch.zeros_like(values).index_add_(0, nearest, there)
        moved = torch.where(count > 0, total / count.clamp(min=1), values)
        return torch.cummax(moved, 0).values

    def forward(self, weight: Tensor) -> Tensor:
        """The weights as they are stored."""
        flat = torch.zeros_like(self.mask).flatten()
        if self.fixed:
            given = self.values.index_select(0, self.nearest)
            return _laid_out(flat.index_put((self.places,), given).view_as(weight))
        with torch.no_grad():
            there = weight.detach().flatten()[self.places].float()
            if self.training and len(there):
                self.values.copy_(self._moved(self.values, there))
            stored = flat.index_put((self.places,), self.values[_nearest(self.values, there)])
        return _laid_out(stored.view_as(weight) + (weight - weight.detach()) * self.mask)


def _laid_out(weight: Tensor) -> Tensor:
    """In the order in which a GPU is fast."""
    return weight.contiguous(memory_format=torch.channels_last)


def _nearest(values: Tensor, there: Tensor) -> Tensor:
    """The number of the nearest of ascending values."""
    return torch.bucketize(there, (values[1:] + values[:-1]) / 2)


def add_codebooks(network: SqueezeNet, bits: Sequence[int], fixed: bool = False) -> None:
    """Give every convolution its own, of so many bits."""
    for conv, each in zip(network.convolutions(), bits, strict=True):
        codebook = Codebook(conv.weight, each, fixed)
        parametrize.register_parametrization(conv, "weight", codebook, unsafe=True)


def remove_codebooks(network: SqueezeNet) -> None:
    """Leave the weights as they are stored."""
    for conv in network.convolutions():
        parametrize.remove_parametrizations(conv, "weight")


def layer_bytes(weight: Tensor) -> float:
    """What an ideal coder needs for a convolution's weights, its values by their frequencies.

    Zeros are a value too, but where a whole row or column is zero.
    """
    rows = (weight != 0).flatten(1).any(1)
    columns = (weight != 0).any(0).flatten(1).any(1)
    there: Any = weight[rows][:, columns]
    _, counts = there.unique(return_counts=True)
    shares = counts.double() / counts.sum()
    return float(-(counts * shares.log2()).sum() + 32 * len(counts)) / 8


def bias_bytes(network: SqueezeNet) -> float:
    """Two bytes for each that is not zero."""
    convolutions: list[Any] = network.convolutions()
    biases = [conv.bias for conv in convolutions if conv.bias is not None]
    return sum(2 * float((bias != 0).sum()) for bias in biases)


def entropy_bytes(network: SqueezeNet) -> float:
    """What an ideal coder needs for weights and biases."""
    weights = sum(layer_bytes(conv.weight.detach()) for conv in network.convolutions())
    return weights + bias_bytes(network)


@torch.no_grad()
def choose_bits(network: SqueezeNet, images: Tensor, most_bytes: float) -> list[int]:
    """For each convolution the bits of its codebook: more where few bytes mend much.

    A layer's harm is how far the network's word on the images moves when that layer alone takes
    few values (Kullback and Leibler's divergence). From the fewest bits on, what mends most for its
    bytes goes first, until the network has most_bytes (mixed precision by sensitivity, as in Dong
    et al., HAWQ-V2, 2020).
    """
    network.eval()
    word = network(images).log_softmax(1)
    harms: list[list[float]] = []
    costs: list[list[float]] = []
    for conv in network.convolutions():
        weight = conv.weight.data
        harm, cost = [], []
        for bits in BITS:
            conv.weight.data = Codebook(weight, bits).eval()(weight)
            moved = network(images).log_softmax(1)
            kl = functional.kl_div(moved, word, None, None, "batchmean", log_target=True)
            harm.append(float(kl))
            cost.append(layer_bytes(conv.weight.data))
        conv.weight.data = weight
        harms.append(harm)
        costs.append(cost)
    chosen = [0] * len(costs)
    room = most_bytes - bias_bytes(network) - sum(cost[0] for cost in costs)
    while True:
        steps = [
            ((harms[at][now] - harms[at][more]) / max(price, 1.0), at, more)
            for at, now in enumerate(chosen)
            for more in range(now + 1, len(BITS))
            if (price := costs[at][more] - costs[at][now]) <= room
        ]
        gain, at, more = max(steps, default=(0.0, 0, 0))
        if gain <= 0:
            return [BITS[each] for each in chosen]
        room -= costs[at][more] - costs[at][chosen[at]]
        chosen[at] = more
