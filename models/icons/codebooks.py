"""Weights that take few different values, learned while training goes on."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from palmkit.models.icons.network import SqueezeNet

ROUNDS = 30


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


def add_codebooks(network: SqueezeNet, bits: int, fixed: bool = False, fewest: int = 0) -> None:
    """Give every convolution its own.

    Of `bits`, but one more where fewer weights than `fewest` are left, and then two more in the
    first: there a bit costs little and does much.
    """
    for number, conv in enumerate(network.convolutions()):
        extra = 2 if number == 0 else 1
        is_small = int((conv.weight != 0).sum()) < fewest
        codebook = Codebook(conv.weight, bits + extra * is_small, fixed)
        parametrize.register_parametrization(conv, "weight", codebook, unsafe=True)


def remove_codebooks(network: SqueezeNet) -> None:
    """Leave the weights as they are stored."""
    for conv in network.convolutions():
        parametrize.remove_parametrizations(conv, "weight")


def entropy_bytes(network: SqueezeNet) -> float:
    """What an ideal coder needs for the weights, each layer's values by their frequencies.

    Zeros are a value too. Biases count two bytes where they are not zero.
    """
    bits = 0.0
    convolutions: list[Any] = network.convolutions()
    for conv in convolutions:
        weight = conv.weight.detach()
        rows = (weight != 0).flatten(1).any(1)
        columns = (weight != 0).any(0).flatten(1).any(1)
        _, counts = weight[rows][:, columns].unique(return_counts=True)
        total = float(counts.sum())
        bits += sum(count * math.log2(total / count) for count in counts.tolist())
        bits += 32 * len(counts)
        if conv.bias is not None:
            bits += 16 * float((conv.bias != 0).sum())
    return bits / 8
