"""Pruning while training: channels by their effect on the loss, weights by their magnitude."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from palmkit.models.icons.network import SqueezeNet


def kept_share(begin: float, end: float, progress: float) -> float:
    """Return the share that remains at a progress of 0..1.

    The cubic schedule of Zhu and Gupta (To prune, or not to prune, 2017).
    """
    return end + (begin - end) * (1 - min(progress, 1.0)) ** 3


class Masks:
    """Which channels and weights of a network remain; `apply` sets the others to zero.

    A pruned channel is zero, and so is what reads it; a channel that nothing reads, or that reads
    nothing, is pruned too.
    """

    def __init__(self, network: SqueezeNet) -> None:
        """Start with all channels and weights."""
        self.network = network
        self.convolutions = network.convolutions()
        self.reads = network.inputs_of()
        self.alive = [torch.ones_like(conv.weight[:, 0, 0, 0]) for conv in self.convolutions]
        self.weights = [torch.ones_like(conv.weight) for conv in self.convolutions]
        self.worth = [torch.zeros_like(alive) for alive in self.alive[:-1]]

    def take(self, weights: Sequence[Tensor]) -> None:
        """Keep those of each convolution's weights that are not zero here."""
        for mask, other in zip(self.weights, weights, strict=True):
            mask.copy_(other)
        self.settle()

    @torch.no_grad()
    def apply(self) -> None:
        """Set pruned weights to zero."""
        for conv, mask in zip(self.convolutions, self.weights, strict=True):
            conv.weight.mul_(mask)
        for layer, alive in zip(self.network.layers(), self.alive, strict=False):
            bias = layer.convolution.bias
            if bias is not None:
                bias.mul_(alive)
            else:
                assert isinstance(layer.norm, nn.BatchNorm2d)
                layer.norm.weight.mul_(alive)
                layer.norm.bias.mul_(alive)

    @torch.no_grad()
    def settle(self) -> None:
        """Propagate pruned channels to the weights that they make useless, and back."""
        for _ in range(2):
            for at, sources in enumerate(self.reads):
                mask, alive = self.weights[at], self.alive[at]
                alive.mul_(mask.flatten(1).amax(1))
                mask.mul_(alive[:, None, None, None])
                if not sources:
                    continue
                mask.mul_(torch.cat([self.alive[source] for source in sources])[:, None, None])
            for at in reversed(range(len(self.reads) - 1)):
                used = torch.zeros_like(self.alive[at])
                for reader, sources in enumerate(self.reads):
                    if at not in sources:
                        continue
                    first = sum(len(self.alive[source]) for source in sources[: sources.index(at)])
                    part = self.weights[reader][:, first : first + len(used)]
                    used = torch.maximum(used, part.amax((0, 2, 3)))
                self.alive[at].mul_(used)
        self.apply()

    @property
    def density(self) -> float:
        """Return the share of the weights that remain."""
        return float(sum(mask.sum() for mask in self.weights)) / self.size

    @property
    def size(self) -> int:
        """Return the number of all weights."""
        return sum(mask.numel() for mask in self.weights)

    @torch.no_grad()
    def watch(self) -> None:
        """Estimate, after a backward pass, how much the loss needs each channel.

        Molchanov et al., Importance Estimation for Neural Network Pruning, 2019: the square of the
        first-order estimate, at gates formed by the gains and shifts of batch normalisation.
        """
        for worth, layer in zip(self.worth, self.network.layers(), strict=True):
            norm = layer.norm
            assert isinstance(norm, nn.BatchNorm2d)
            assert norm.weight.grad is not None and norm.bias.grad is not None
            missed = norm.weight * norm.weight.grad + norm.bias * norm.bias.grad
            worth.lerp_(missed.square(), 0.02)

    @torch.no_grad()
    def keep_channels(self, share: float) -> None:
        """Prune the channels that matter least to this share, keeping at least 4 in each layer.

        A channel is judged by its worth for each weight that it costs.
        """
        scores: list[Tensor] = []
        for at, (worth, alive) in enumerate(zip(self.worth, self.alive, strict=False)):
            cost = self.weights[at].flatten(1).sum(1).clamp(min=1.0)
            score = (worth / cost.sqrt()).masked_fill(alive == 0, -1.0)
            score[score.topk(4).indices] = torch.inf
            scores.append(score)
        joined = torch.cat(scores)
        gone = len(joined) - round(share * len(joined))
        if gone <= 0:
            return
        edge = joined.kthvalue(gone).values
        for score, alive in zip(scores, self.alive, strict=False):
            alive.mul_(score > edge)
        self.settle()

    @torch.no_grad()
    def keep_weights(self, share: float) -> None:
        """Prune the weights that matter least to this share.

        Layer-adaptive magnitudes (Lee et al., Layer-adaptive Sparsity for the Magnitude-based
        Pruning, 2021): a weight's square over the sum of those that are not smaller in its layer.
        """
        scores: list[Tensor] = []
        for conv, mask in zip(self.convolutions, self.weights, strict=True):
            squares = (conv.weight.float().square() * mask).flatten()
            ordered, places = squares.sort()
            rest = ordered.flip(0).cumsum(0).flip(0)
            score = torch.zeros_like(squares)
            score[places] = ordered / rest.clamp(min=1e-30)
            scores.append(score.view_as(mask))
        self._keep(scores, share)

    @torch.no_grad()
    def keep_beyond(self, share: float) -> None:
        """Prune as Han et al. (Learning both Weights and Connections, 2015).

        Each layer keeps the weights beyond the same number of its standard deviations.
        """
        scores = [
            conv.weight.abs() / conv.weight[mask > 0].std() * mask
            for conv, mask in zip(self.convolutions, self.weights, strict=True)
        ]
        self._keep(scores, share)

    def _keep(self, scores: list[Tensor], share: float) -> None:
        joined = torch.cat([score.flatten() for score in scores])
        gone = len(joined) - round(share * len(joined))
        if gone <= 0:
            return
        edge = joined.kthvalue(gone).values
        for score, mask in zip(scores, self.weights, strict=True):
            mask.mul_(score > edge)
        self.settle()
