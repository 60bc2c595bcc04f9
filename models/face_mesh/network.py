"""The network: depthwise-separable residual stages, then all points from the whole last maps.

A face's mesh has few degrees of freedom: the points are a learnt linear map of a short code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.kits.face.topology import POINTS
from palmkit.models.training.blocks import Separable, convolve

SIZE = 160


class Prediction(NamedTuple):
    """The network's outputs.

    points: float32[n, 478, 3] in 0..1 of the crop; visibility: float32[n, 478] and presence:
    float32[n], logits.
    """

    points: Tensor
    visibility: Tensor
    presence: Tensor


class FaceMesh(nn.Module):
    """A network from RGB 0..1 to mesh, visibility and presence."""

    def __init__(
        self,
        size: int = SIZE,
        stem: int = 16,
        channels: Sequence[int] = (32, 80, 128, 160),
        blocks: Sequence[int] = (2, 4, 4, 3),
        kernels: Sequence[int] = (3, 3, 5, 5),
        reduced: Sequence[int] = (4, 8, 24),
        code: int = 80,
    ) -> None:
        """Build the network; channels, blocks and kernels are of strides 4, 8, 16 and 32.

        size: of the square input. reduced: channels kept of the maps of strides 8, 16 and 32, of
        which the code is made.
        """
        super().__init__()
        self.stem = convolve(3, stem, 3, 2)
        stages: list[nn.Module] = []
        previous = stem
        for width, count, kernel in zip(channels, blocks, kernels, strict=True):
            stages.append(
                nn.Sequential(
                    Separable(previous, width, 3, 2),
                    *(Separable(width, width, kernel) for _ in range(count)),
                )
            )
            previous = width
        self.stages = nn.ModuleList(stages)
        self.kept = nn.ModuleList(
            convolve(width, kept, 1) for width, kept in zip(channels[1:], reduced, strict=True)
        )
        inputs = sum(
            kept * (size // stride) ** 2 for kept, stride in zip(reduced, (8, 16, 32), strict=True)
        )
        self.encode = nn.Linear(inputs, code)
        self.points = nn.Linear(code, POINTS * 3)
        self.seen = nn.Sequential(
            nn.ReLU(), nn.Linear(code, 32), nn.ReLU(), nn.Linear(32, POINTS + 1)
        )
        nn.init.normal_(self.points.weight, std=0.002)

    @torch.no_grad()
    def set_mean(self, mean: Tensor) -> None:
        """Start from this mesh, float32[478, 3]."""
        bias = self.points.bias
        bias.copy_(mean.reshape(-1))

    def forward(self, x: Tensor) -> Prediction:
        """Predict from float32[n, 3, size, size]."""
        x = functional.relu(self.stem(x))
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        kept = [keep(each).flatten(1) for keep, each in zip(self.kept, maps[1:], strict=True)]
        code = self.encode(functional.relu(torch.cat(kept, dim=1)))
        seen = self.seen(code)
        points = self.points(code).reshape(-1, POINTS, 3)
        return Prediction(points, seen[:, :POINTS], seen[:, POINTS])


class ExportedNetwork(nn.Module):
    """The network as the kit runs it: RGB 0..255 NHWC in; points, visibility and presence out."""

    def __init__(self, network: FaceMesh) -> None:
        """Wrap a trained network, whose first convolution takes the division by 255."""
        super().__init__()
        self.network = network
        first = network.stem[0]
        assert isinstance(first, nn.Conv2d)
        with torch.no_grad():
            first.weight /= 255

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map float32[1, size, size, 3] to float32[1, 478, 3], float32[1, 478], float32[1, 1]."""
        points, visibility, presence = self.network(image.permute(0, 3, 1, 2))
        return points, visibility.sigmoid(), presence.sigmoid()[:, None]
