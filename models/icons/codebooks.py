"""Weights with few distinct values, learned during training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from palmkit.models.icons.network import SqueezeNet

ROUNDS = 30
# The numbers of bits that a layer's codebook may have.
BITS = (2, 3, 4, 5, 6)


class Codebook(nn.Module):
    """Gives each nonzero weight the nearest of a few values; zeros stay.

    The values follow the weights, which the gradient moves as if they were used unquantized. With
    `fixed` assignments only the values learn, each by the sum of its weights' gradients (Han et
    al., Deep Compression, 2015).
    """

    def __init__(self, weight: Tensor, bits: int, fixed: bool = False) -> None:
        """Start with evenly spread values.

        bits: one value is reserved for zero; the first values lie between the minimum and maximum.
        """
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
        """Run one round of Lloyd's algorithm; a value without weights stays."""
        nearest = _nearest(values, there)
        count = torch.zeros_like(values).index_add_(0, nearest, torch.ones_like(there))
        total = torch.zeros_like(values).index_add_(0, nearest, there)
        moved = torch.where(count > 0, total / count.clamp(min=1), values)
        return torch.cummax(moved, 0).values

    def forward(self, weight: Tensor) -> Tensor:
        """Return the weights as they are stored."""
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
    """Return the weight in the memory order that is fast on a GPU."""
    return weight.contiguous(memory_format=torch.channels_last)


def _nearest(values: Tensor, there: Tensor) -> Tensor:
    """Return the index of the nearest of ascending values."""
    return torch.bucketize(there, (values[1:] + values[:-1]) / 2)


def add_codebooks(network: SqueezeNet, bits: Sequence[int], fixed: bool = False) -> None:
    """Give every convolution a codebook of so many bits."""
    for conv, each in zip(network.convolutions(), bits, strict=True):
        codebook = Codebook(conv.weight, each, fixed)
        parametrize.register_parametrization(conv, "weight", codebook, unsafe=True)


def remove_codebooks(network: SqueezeNet) -> None:
    """Replace the weights by their stored values."""
    for conv in network.convolutions():
        parametrize.remove_parametrizations(conv, "weight")


def layer_bytes(weight: Tensor) -> float:
    """Return an ideal coder's bytes for a convolution's weights, by the values' frequencies.

    Zeros are a value too, except where a whole row or column is zero.
    """
    rows = (weight != 0).flatten(1).any(1)
    columns = (weight != 0).any(0).flatten(1).any(1)
    there: Any = weight[rows][:, columns]
    _, counts = there.unique(return_counts=True)
    shares = counts.double() / counts.sum()
    return float(-(counts * shares.log2()).sum() + 32 * len(counts)) / 8


def bias_bytes(network: SqueezeNet) -> float:
    """Return two bytes for each nonzero bias."""
    convolutions: list[Any] = network.convolutions()
    biases = [conv.bias for conv in convolutions if conv.bias is not None]
    return sum(2 * float((bias != 0).sum()) for bias in biases)


def entropy_bytes(network: SqueezeNet) -> float:
    """Return an ideal coder's bytes for weights and biases."""
    weights = sum(layer_bytes(conv.weight.detach()) for conv in network.convolutions())
    return weights + bias_bytes(network)


@torch.no_grad()
def choose_bits(network: SqueezeNet, images: Tensor, most_bytes: float) -> list[int]:
    """Return the bits of each convolution's codebook, more where few bytes help much.

    A layer's harm is the Kullback-Leibler divergence of the network's outputs when that layer alone
    is quantized. From the fewest bits on, the largest gain for its bytes is taken first, until the
    network has most_bytes (mixed precision by sensitivity, as in Dong et al., HAWQ-V2, 2020).
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
