"""The network: 21 landmarks as means of heat maps, and the hand's side, presence and gesture.

Landmarks are expectations over a 24 x 24 grid (Sun et al., Integral Human Pose Regression, 2018),
which move with the hand and so need fewer pictures than numbers from a dense layer.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.training.blocks import Separable, convolve

SIZE = 192
CELLS = 24
LANDMARKS = 21
# The classes of the network; the direction of the thumb follows from the crop's rotation.
SHAPES = (
    "fist",
    "open_palm",
    "one",
    "two",
    "three",
    "four",
    "ok",
    "thumb",
    "finger_heart",
    "other",
)
GESTURES = (*SHAPES[:7], "thumb_up", "thumb_down", "finger_heart", "other")
THUMB, HEART, OTHER = SHAPES.index("thumb"), SHAPES.index("finger_heart"), SHAPES.index("other")
# The decision is even at 60 degrees from the vertical.
UP_SHARE, UP_STEEPNESS = 0.5, 12.0
# The grid reaches over the crop's border, as a mean never reaches the last cells.
REACH = 1.15


class Seen(NamedTuple):
    """float32 predictions for n crops.

    landmarks: [n, 21, 3], 0..1 of the crop, z in the same unit from the wrist. maps: [n, 21, 576]
    probabilities over the cells. right, presence: [n, 1] logits. by_picture: [n, 10] logits of
    SHAPES from the picture and the landmarks; by_landmarks: from the landmarks alone.
    """

    landmarks: Tensor
    maps: Tensor
    right: Tensor
    presence: Tensor
    by_picture: Tensor
    by_landmarks: Tensor


def normalised(landmarks: Tensor) -> Tensor:
    """Return float32[n, 21, 3] about their mean, in units of their mean distance, as [n, 63]."""
    moved = landmarks - landmarks.mean(dim=1, keepdim=True)
    flat = moved[..., :2]
    size = (flat * flat).sum(dim=2, keepdim=True).mean(dim=1, keepdim=True)
    return (moved / (size + 1e-6).sqrt()).flatten(1)


def perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Return a perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, outputs),
    )


class HandNetwork(nn.Module):
    """A network from a crop, RGB 0..1, to the predictions."""

    def __init__(
        self,
        stem: int = 16,
        channels: tuple[int, int, int, int] = (32, 96, 160, 256),
        blocks: tuple[int, int, int, int] = (1, 2, 5, 3),
        neck: int = 64,
        dropout: float = 0.3,
    ) -> None:
        """Build the network; channels and shortcut blocks are of strides 4, 8, 16 and 32."""
        super().__init__()
        self.stem = convolve(3, stem, 3, 2)
        stages: list[nn.Module] = []
        previous = stem
        for width, count, kernel in zip(channels, blocks, (3, 3, 5, 5), strict=True):
            stages.append(
                nn.Sequential(
                    Separable(previous, width, 3, 2),
                    *(Separable(width, width, kernel) for _ in range(count)),
                )
            )
            previous = width
        self.stages = nn.ModuleList(stages)
        self.laterals = nn.ModuleList(convolve(width, neck, 1) for width in channels[1:])
        self.necks = nn.ModuleList(
            [Separable(neck, neck), nn.Sequential(Separable(neck, neck), Separable(neck, neck))]
        )
        self.heat = nn.Conv2d(neck, 2 * LANDMARKS, 1)
        self.dropout = nn.Dropout(dropout)
        self.traits = nn.Linear(channels[3], 2)
        self.picture_head = perceptron(channels[3] + neck + 3 * LANDMARKS, 128, len(SHAPES))
        self.landmark_head = perceptron(3 * LANDMARKS, 96, len(SHAPES))
        cells = ((torch.arange(CELLS) + 0.5) / CELLS - 0.5) * REACH + 0.5
        y, x = torch.meshgrid(cells, cells, indexing="ij")
        self.register_buffer("grid", torch.stack([x.reshape(-1), y.reshape(-1)], dim=1))

    def forward(self, x: Tensor, drawn: Tensor | None = None) -> Seen:
        """Predict from float32[n, 3, 192, 192].

        drawn: float32[m, 63], normalised landmarks of hands without a picture: they go through the
        classifiers with the first m crops' looks and become rows n to n + m.
        """
        x = functional.relu(self.stem(x))
        maps: list[Tensor] = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        y: Tensor = functional.relu(self.laterals[2](maps[3]))
        for index, neck in ((1, self.necks[0]), (0, self.necks[1])):
            y = functional.interpolate(y, scale_factor=2.0, mode="nearest")
            y = neck(functional.relu(self.laterals[index](maps[index + 1]) + y))
        raw = self.heat(y).flatten(2).float()
        heat = raw[:, :LANDMARKS].softmax(dim=2)
        grid = self.grid
        assert isinstance(grid, Tensor)
        # In bfloat16 a coordinate would be a multiple of 1/256.
        with torch.autocast(x.device.type, enabled=False):
            flat = heat @ grid
        depth = (heat * raw[:, LANDMARKS:]).sum(dim=2, keepdim=True)
        depth = depth - depth[:, :1]
        landmarks = torch.cat([flat, depth], dim=2)
        deep = maps[3].float().mean(dim=(2, 3))
        near = y.float().mean(dim=(2, 3))
        traits = self.traits(self.dropout(deep)).float()
        shape = normalised(landmarks.detach())
        if drawn is not None:
            shape = torch.cat([shape, drawn])
            deep, near = (torch.cat([each, each[: len(drawn)]]) for each in (deep, near))
        features = torch.cat([self.dropout(deep), self.dropout(near), shape], dim=1)
        return Seen(
            landmarks,
            heat,
            traits[:, :1],
            traits[:, 1:],
            self.picture_head(features).float(),
            self.landmark_head(shape).float(),
        )


class ExportedNetwork(nn.Module):
    """The network as the kit runs it: RGB 0..255 NHWC and the picture's up direction in."""

    def __init__(self, network: HandNetwork, share: float) -> None:
        """Wrap a trained network.

        share: weight of the landmarks' own classifier in the gesture, 0..1.
        """
        super().__init__()
        self.network = network
        self.share = share
        first = network.stem[0]
        assert isinstance(first, nn.Conv2d)
        with torch.no_grad():
            first.weight /= 255

    def forward(self, image: Tensor, up: Tensor) -> tuple[Tensor, ...]:
        """Map float32[1, 192, 192, 3] and float32[1, 2] to landmarks and probabilities."""
        seen: Seen = self.network(image.permute(0, 3, 1, 2))
        logits = seen.by_picture * (1 - self.share) + seen.by_landmarks * self.share
        gesture = with_direction(logits.softmax(dim=1), seen.landmarks, up)
        return seen.landmarks, seen.right.sigmoid(), seen.presence.sigmoid(), gesture


def with_direction(shapes: Tensor, landmarks: Tensor, up: Tensor) -> Tensor:
    """Turn probabilities of SHAPES into those of GESTURES: a thumb up, down, or neither.

    up: float32[n, 2], the picture's upward direction in the crop.
    """
    along = landmarks[:, 4, :2] - landmarks[:, 1, :2]
    length = ((along * along).sum(dim=1, keepdim=True) + 1e-8).sqrt()
    share = (along * up).sum(dim=1, keepdim=True) / length
    upward = (UP_STEEPNESS * (share - UP_SHARE)).sigmoid()
    downward = (UP_STEEPNESS * (-share - UP_SHARE)).sigmoid()
    thumb = shapes[:, THUMB : THUMB + 1]
    sideways = thumb * (1 - upward - downward)
    return torch.cat(
        [
            shapes[:, :THUMB],
            thumb * upward,
            thumb * downward,
            shapes[:, HEART : HEART + 1],
            shapes[:, OTHER:] + sideways,
        ],
        dim=1,
    )
