"""The guide: a large network that learns the masks first and then teaches the one that ships.

It sees what the published teacher makes of the picture at every stride, so that it knows as many
people as that one does, and learns from the sets' own masks where it is wrong. Nobody runs it
outside of training.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from palmkit.models.segmentation.network import Maps
from palmkit.models.segmentation.teacher_network import FEATURE_CHANNELS, SelfieNetwork
from palmkit.models.training.blocks import convolve

# Channels at strides 4 to 32 with their blocks, then of the way up, at strides 16 to 2.
CHANNELS, BLOCKS = (64, 128, 224, 256), (2, 3, 4, 2)
DECODER = (160, 96, 64, 48)
FEATURES = (*CHANNELS[:3], *DECODER)
# Share of a block's results that is left out for a picture in training.
DROPPED = 0.1


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, channels: int) -> None:
        """Build the block with as many channels in as out."""
        super().__init__()
        self.first = convolve(channels, channels, 3)
        self.second = convolve(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, channels, h, w] to the same shape."""
        y: Tensor = self.second(functional.relu(self.first(x)))
        if self.training:
            kept = torch.rand(len(x), 1, 1, 1, device=x.device) > DROPPED
            y = y * kept.to(y.dtype)
        return functional.relu(x + y)


class Guide(nn.Module):
    """A network from RGB 0..1 to one logit a pixel, with the frozen published teacher inside."""

    def __init__(self, teacher: SelfieNetwork) -> None:
        """Build the guide.

        teacher: the network that it reads beside the picture.
        """
        super().__init__()
        self.teacher = teacher
        self.stem = nn.Sequential(convolve(3, 32, 3, 2), nn.ReLU())
        # The teacher's features have no fixed spread.
        self.level = nn.ModuleList(
            nn.BatchNorm2d(channels, affine=False) for channels in FEATURE_CHANNELS
        )
        stages: list[nn.Module] = []
        inputs = 32
        for index, (width, count) in enumerate(zip(CHANNELS, BLOCKS, strict=True)):
            stages.append(
                nn.Sequential(
                    convolve(inputs, width, 3, 2), nn.ReLU(), *(Block(width) for _ in range(count))
                )
            )
            inputs = width + (FEATURE_CHANNELS[index] if index < 3 else 0)
        self.stages = nn.ModuleList(stages)
        self.context = nn.Conv2d(inputs, inputs, 1)
        ups: list[nn.Module] = []
        beside = (
            CHANNELS[2] + FEATURE_CHANNELS[2] + FEATURE_CHANNELS[3],
            CHANNELS[1] + FEATURE_CHANNELS[1] + FEATURE_CHANNELS[4],
            CHANNELS[0] + FEATURE_CHANNELS[0] + FEATURE_CHANNELS[5],
            32 + FEATURE_CHANNELS[6],
        )
        for width, other in zip(DECODER, beside, strict=True):
            ups.append(nn.Sequential(convolve(inputs + other, width, 3), nn.ReLU(), Block(width)))
            inputs = width
        self.ups = nn.ModuleList(ups)
        self.coarse = nn.Conv2d(DECODER[1], 1, 1)
        self.mask = nn.ConvTranspose2d(inputs + 4, 1, 4, 2, 1)

    def forward(self, x: Tensor) -> Maps:
        """Predict from float32[n, 3, 256, 256]."""
        with torch.no_grad():
            said, theirs = self.teacher(x)
        known = [level(each) for level, each in zip(self.level, theirs, strict=True)]
        # Its word at half the size, a place of four values.
        word = functional.pixel_unshuffle(said.clamp(-8, 8) / 4, 2).to(known[0].dtype)
        y = self.stem(x)
        maps = [y]
        for index, stage in enumerate(self.stages):
            y = stage(y)
            maps.append(y)
            if index < 3:
                y = torch.cat([y, known[index]], 1)
        y = functional.relu(y + self.context(y.mean(dim=(2, 3), keepdim=True)))
        features = maps[1:4]
        sides = (
            (maps[3], known[2], known[3]),
            (maps[2], known[1], known[4]),
            (maps[1], known[0], known[5]),
            (maps[0], known[6]),
        )
        for up, side in zip(self.ups, sides, strict=True):
            y = functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
            y = up(torch.cat([y, *(each.to(y.dtype) for each in side)], 1))
            features.append(y)
        return Maps(self.mask(torch.cat([y, word], 1)), self.coarse(features[4]), features)


def folded(guide: Guide) -> Guide:
    """Return the guide for inference: normalisation folded into the convolutions before it."""
    guide.eval()
    for module in list(guide.modules()):
        if isinstance(module, nn.Sequential) and len(module) == 2:
            convolution, normalisation = module
            if isinstance(convolution, nn.Conv2d) and isinstance(normalisation, nn.BatchNorm2d):
                module[0] = fuse_conv_bn_eval(convolution, normalisation)
                module[1] = nn.Identity()
    return guide
