"""The network: depthwise-separable residual stages, then all points from the whole last maps.

A face's mesh has few degrees of freedom: the points are a learnt linear map of a short code and, in
the larger network, of where some of them are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.kits.face.topology import (
    FACE_OVAL,
    LEFT_BROW,
    LEFT_EYE,
    LEFT_IRIS,
    LIPS_INNER,
    LIPS_OUTER,
    NOSE_BASE,
    NOSE_RIDGE,
    POINTS,
    RIGHT_BROW,
    RIGHT_EYE,
    RIGHT_IRIS,
)
from palmkit.models.training.blocks import Separable, convolve

SIZE = 160
# The points that the larger network looks for in a map of its own.
MARKS = (
    *(*RIGHT_IRIS, *LEFT_IRIS, *RIGHT_EYE[::2], *LEFT_EYE[::2], *LIPS_OUTER[::2], *LIPS_INNER[::2]),
    *(*RIGHT_BROW[::2], *LEFT_BROW[::2], *NOSE_RIDGE[::2], *NOSE_BASE[::2], *FACE_OVAL[::3]),
)


@dataclass(frozen=True)
class Size:
    """The size of a network.

    channels, blocks, kernels: of strides 4, 8, 16 and 32. reduced: channels kept of the maps of
    strides 8, 16 and 32, of which the code of so many numbers is made. neck: channels of the map of
    stride 4 in which MARKS are looked for; at 0 there is none.
    """

    stem: int = 16
    channels: Sequence[int] = (32, 80, 128, 160)
    blocks: Sequence[int] = (2, 4, 4, 3)
    kernels: Sequence[int] = (3, 3, 5, 5)
    reduced: Sequence[int] = (4, 8, 24)
    code: int = 80
    neck: int = 0


# By the `quality` of a kit.
SIZES = {
    "fast": Size(),
    "best": Size(24, (48, 128, 192, 256), kernels=(3, 5, 5, 5), code=96, neck=64),
}


class Prediction(NamedTuple):
    """The network's outputs.

    points: float32[n, 478, 3] in 0..1 of the crop; visibility: float32[n, 478] and presence:
    float32[n], logits. heat: float32[n, k, s, s], logits of where each of MARKS is, if looked for.
    """

    points: Tensor
    visibility: Tensor
    presence: Tensor
    heat: Tensor | None = None


class Finder(nn.Module):
    """Finds MARKS in a map of stride 4 that all strides' maps add to."""

    def __init__(self, channels: Sequence[int], neck: int) -> None:
        """Build it; channels are of the maps of strides 4 to 32."""
        super().__init__()
        self.laterals = nn.ModuleList(convolve(width, neck, 1) for width in channels)
        self.necks = nn.ModuleList(Separable(neck, neck, 5) for _ in channels)
        self.heat = nn.Conv2d(neck, len(MARKS), 1)

    def forward(self, maps: Sequence[Tensor]) -> Tensor:
        """Map each stride's map to float32[n, k, s, s], logits of where each mark is."""
        above: Tensor | None = None
        for lateral, neck, each in zip(
            reversed(self.laterals), reversed(self.necks), reversed(maps), strict=True
        ):
            y: Tensor = lateral(each)
            if above is not None:
                y = y + functional.interpolate(above, scale_factor=2.0, mode="nearest")
            above = neck(functional.relu(y))
        found: Tensor = self.heat(above)
        return found


def places(heat: Tensor) -> Tensor:
    """Return the mean place of each map, x and y in 0..1: float32[n, k, s, s] to [n, k, 2]."""
    side = heat.shape[-1]
    shares = heat.flatten(2).softmax(dim=-1)
    step = (torch.arange(side, device=heat.device, dtype=shares.dtype) + 0.5) / side
    x, y = step.repeat(side), step.repeat_interleave(side)
    return torch.stack([(shares * x).sum(dim=-1), (shares * y).sum(dim=-1)], dim=-1)


class FaceMesh(nn.Module):
    """A network from RGB 0..1 to mesh, visibility and presence."""

    def __init__(self, side: int = SIZE, size: Size = SIZES["fast"]) -> None:
        """Build the network for square inputs of this side, a multiple of 32."""
        super().__init__()
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
        self.kept = nn.ModuleList(
            convolve(width, kept, 1)
            for width, kept in zip(size.channels[1:], size.reduced, strict=True)
        )
        inputs = sum(
            kept * (side // stride) ** 2
            for kept, stride in zip(size.reduced, (8, 16, 32), strict=True)
        )
        self.encode = nn.Linear(inputs, size.code)
        self.finder = Finder(size.channels, size.neck) if size.neck else None
        self.points = nn.Linear(size.code + 2 * len(MARKS) * bool(size.neck), POINTS * 3)
        self.seen = nn.Sequential(
            nn.ReLU(), nn.Linear(size.code, 32), nn.ReLU(), nn.Linear(32, POINTS + 1)
        )
        nn.init.normal_(self.points.weight, std=0.002)

    @torch.no_grad()
    def set_mean(self, mean: Tensor) -> None:
        """Start from this mesh, float32[478, 3]."""
        bias = self.points.bias
        bias.copy_(mean.reshape(-1))

    def features(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return of float32[n, 3, side, side] what the points are read from: code and heat."""
        x = functional.relu(self.stem(x))
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        kept = [keep(each).flatten(1) for keep, each in zip(self.kept, maps[1:], strict=True)]
        code = self.encode(functional.relu(torch.cat(kept, dim=1)))
        return code, None if self.finder is None else self.finder(maps)

    def read(self, code: Tensor, heat: Tensor | None) -> Prediction:
        """Return the outputs, of float32[n, code] and the heat."""
        seen = self.seen(code)
        if heat is not None:
            code = torch.cat([code, (places(heat) - 0.5).flatten(1)], dim=1)
        points = self.points(code).reshape(-1, POINTS, 3)
        return Prediction(points, seen[:, :POINTS], seen[:, POINTS], heat)

    def forward(self, x: Tensor) -> Prediction:
        """Predict from float32[n, 3, side, side]."""
        return self.read(*self.features(x))


def trained(state: Mapping[str, Any]) -> FaceMesh:
    """Return the averaged network of a checkpoint of train.py, ready to be used."""
    recipe = state["recipe"]
    network = FaceMesh(int(recipe["size"]), SIZES[recipe.get("network", "fast")])
    network.load_state_dict(state["averaged"])
    network.eval()
    return network


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
        points, visibility, presence, _ = self.network(image.permute(0, 3, 1, 2))
        return points, visibility.sigmoid(), presence.sigmoid()[:, None]
