"""The network: depthwise-separable residual stages, a top-down neck, one head a stride.

Little is spent at half and quarter resolution; the width lies where objects are decided: at
strides 8, 16 and 32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.training.blocks import Separable, convolve

STRIDES = (8, 16, 32)
LARGEST_LOG_DISTANCE = 4.5


@dataclass(frozen=True)
class Size:
    """The size of a network.

    channels, blocks, kernels: channels, shortcut blocks and depthwise kernels of strides 4 to 32.
    """

    stem: int = 16
    channels: Sequence[int] = (32, 96, 128, 128)
    blocks: Sequence[int] = (1, 2, 3, 3)
    kernels: Sequence[int] = (3, 3, 5, 5)
    neck: int = 64


# By the `quality` of a kit.
SIZES = {
    "fast": Size(),
    "best": Size(24, (48, 160, 224, 256), (2, 3, 4, 4), (3, 5, 5, 5), 112),
}


class Level(NamedTuple):
    """One stride's predictions, NCHW.

    logits: float32[n, 1, h, w]; distances: float32[n, 4, h, w], left, top, right, bottom of
    the cell's centre in strides; points: float32[n, 2k, h, w], (x, y) offsets in strides;
    features: float32[n, c, h, w], the neck's output.
    """

    logits: Tensor
    distances: Tensor
    points: Tensor
    features: Tensor


class DetectorNetwork(nn.Module):
    """A network from RGB 0..1 to the three levels' predictions."""

    def __init__(self, points: int, size: Size = SIZES["fast"]) -> None:
        """Build the network.

        points: key points an object.
        """
        super().__init__()
        neck = size.neck
        self.stem = convolve(3, size.stem, 3, 2)
        stages: list[nn.Module] = []
        previous = size.stem
        for width, count, kernel in zip(size.channels, size.blocks, size.kernels, strict=True):
            stages.append(
                nn.Sequential(
                    Separable(previous, width, 3, 2),
                    *(Separable(width, width, kernel) for _ in range(count)),
                )
            )
            previous = width
        self.stages = nn.ModuleList(stages)
        self.laterals = nn.ModuleList(convolve(width, neck, 1) for width in size.channels[1:])
        self.necks = nn.ModuleList(Separable(neck, neck) for _ in STRIDES)
        self.heads = nn.ModuleList(Separable(neck, neck) for _ in STRIDES)
        self.predictors = nn.ModuleList(nn.Conv2d(neck, 5 + 2 * points, 1) for _ in STRIDES)
        for predictor in self.predictors:
            assert isinstance(predictor, nn.Conv2d) and predictor.bias is not None
            nn.init.normal_(predictor.weight, std=0.01)
            nn.init.zeros_(predictor.bias)
            with torch.no_grad():
                predictor.bias[0] = -4.6
                predictor.bias[1:5] = 0.7

    def forward(self, x: Tensor) -> tuple[Level, Level, Level]:
        """Predict from float32[n, 3, height, width], sides multiples of 32."""
        x = functional.relu(self.stem(x))
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        levels: list[Level] = []
        above: Tensor | None = None
        for index in (2, 1, 0):
            y: Tensor = self.laterals[index](maps[index + 1])
            if above is not None:
                y = y + functional.interpolate(above, scale_factor=2.0, mode="nearest")
            features: Tensor = self.necks[index](functional.relu(y))
            predicted: Tensor = self.predictors[index](self.heads[index](features))
            logits, boxes, points = torch.split(predicted, [1, 4, predicted.shape[1] - 5], dim=1)
            distances = boxes.clamp(max=LARGEST_LOG_DISTANCE).exp()
            levels.append(Level(logits, distances, points, features))
            above = features
        return levels[2], levels[1], levels[0]


class ExportedNetwork(nn.Module):
    """The network as the kit runs it: RGB 0..255 NHWC in, nine NHWC maps out."""

    def __init__(self, network: DetectorNetwork) -> None:
        """Wrap a trained network, whose first convolution takes the division by 255."""
        super().__init__()
        self.network = network
        first = network.stem[0]
        assert isinstance(first, nn.Conv2d)
        with torch.no_grad():
            first.weight /= 255

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Map float32[1, height, width, 3] to score, box and points of each stride."""
        outputs: list[Tensor] = []
        for level in self.network(image.permute(0, 3, 1, 2)):
            maps = (level.logits.sigmoid(), level.distances, level.points)
            outputs += [values.permute(0, 2, 3, 1) for values in maps]
        return tuple(outputs)
