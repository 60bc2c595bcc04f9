"""The guide: a large network that learns the masks first and then teaches the one that ships.

It starts from a published classifier of a thousand things, so that it knows what people are with,
and sees what a published mask network makes of the picture at every stride, so that it knows as
many people as that one does; it learns from the sets' own masks where both are wrong. Nobody runs
it outside of training.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.fusion import fuse_conv_bn_eval

from palmkit.models.segmentation.backbone import CHANNELS, Convolve, MobileNetV2
from palmkit.models.segmentation.network import Maps
from palmkit.models.segmentation.teacher_network import (
    FEATURE_CHANNELS,
    POSE_CHANNELS,
    PoseNetwork,
    SelfieNetwork,
)
from palmkit.models.training.blocks import convolve

# Channels of the way up, at strides 16 to 2, and the teacher's features that lie beside each.
DECODER = (192, 128, 80, 48)
BESIDE = ((2, 3), (1, 4), (0, 5), (6,))
AnyGuide = TypeVar("AnyGuide", bound=nn.Module)
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


def heedless(inputs: int, outputs: int) -> nn.Conv2d:
    """Return a pointwise map of zeros, which learns what of its input is of use."""
    layer = nn.Conv2d(inputs, outputs, 1, bias=False)
    nn.init.zeros_(layer.weight)
    return layer


class Guide(nn.Module):
    """A network from RGB 0..1 to one logit a pixel, with the frozen published teacher inside."""

    def __init__(
        self, teacher: SelfieNetwork, encoder: MobileNetV2, pose: PoseNetwork | None = None
    ) -> None:
        """Build the guide.

        teacher: the network that it reads beside the picture. encoder: trained on; its weights
        should be those of a network that knows many things. pose: read too, if given; at first
        the guide does not heed it, so that it may start from one without.
        """
        super().__init__()
        self.teacher = teacher
        self.encoder = encoder
        # The teacher's features have no fixed spread.
        self.level = nn.ModuleList(
            nn.BatchNorm2d(channels, affine=False) for channels in FEATURE_CHANNELS
        )
        self.pose = pose
        if pose is not None:
            self.pose_level = nn.ModuleList(
                nn.BatchNorm2d(channels, affine=False) for channels in POSE_CHANNELS
            )
            self.posed = nn.ModuleList(map(heedless, POSE_CHANNELS, CHANNELS[2:]))
        inputs = CHANNELS[-1]
        self.context = nn.Conv2d(inputs, inputs, 1)
        ups: list[nn.Module] = []
        for width, own, theirs in zip(DECODER, CHANNELS[-2::-1], BESIDE, strict=True):
            others = own + sum(FEATURE_CHANNELS[index] for index in theirs)
            ups.append(nn.Sequential(convolve(inputs + others, width, 3), nn.ReLU(), Block(width)))
            inputs = width
        self.ups = nn.ModuleList(ups)
        self.coarse = nn.Conv2d(DECODER[1], 1, 1)
        self.mask = nn.ConvTranspose2d(inputs + 4, 1, 4, 2, 1)

    def forward(self, x: Tensor) -> Maps:
        """Predict from float32[n, 3, h, w], sides multiples of 32; the teacher knows 256."""
        with torch.no_grad():
            said, theirs = self.teacher(x)
        known = [level(each) for level, each in zip(self.level, theirs, strict=True)]
        # Its word at half the size, a place of four values.
        word = functional.pixel_unshuffle(said.clamp(-8, 8) / 4, 2).to(known[0].dtype)
        maps = self.encoder(x)
        if self.pose is not None:
            with torch.no_grad():
                bodies = self.pose(x)
            for index, (level, posed, body) in enumerate(
                zip(self.pose_level, self.posed, bodies, strict=True), 2
            ):
                maps[index] = maps[index] + posed(level(body).to(maps[index].dtype))
        y = maps[-1]
        y = functional.relu(y + self.context(y.mean(dim=(2, 3), keepdim=True)))
        features = maps[1:4]
        for up, own, beside in zip(self.ups, maps[-2::-1], BESIDE, strict=True):
            y = functional.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)
            others = [own, *(known[index].to(y.dtype) for index in beside)]
            y = up(torch.cat([y, *others], 1))
            features.append(y)
        return Maps(self.mask(torch.cat([y, word], 1)), self.coarse(features[4]), features)


class Guides(nn.Module):
    """Several guides as one, which err in different places."""

    def __init__(self, guides: Sequence[nn.Module]) -> None:
        """Join guides, which give Maps of pictures."""
        super().__init__()
        self.guides = nn.ModuleList(guides)

    def forward(self, x: Tensor) -> Maps:
        """Return the means of their logits, and the first one's features."""
        said: list[Maps] = [guide(x) for guide in self.guides]
        logits, coarse, features = zip(*said, strict=True)
        return Maps(torch.stack(logits).mean(dim=0), torch.stack(coarse).mean(dim=0), features[0])


def folded(guide: AnyGuide) -> AnyGuide:
    """Return the guide for inference: normalisations folded into the convolutions before them."""
    guide.eval()
    for module in list(guide.modules()):
        if isinstance(module, Convolve) and isinstance(module.norm, nn.BatchNorm2d):
            module.convolution = fuse_conv_bn_eval(module.convolution, module.norm)
            module.norm = nn.Identity()
        elif isinstance(module, nn.Sequential) and len(module) == 2:
            convolution, normalisation = module
            if isinstance(convolution, nn.Conv2d) and isinstance(normalisation, nn.BatchNorm2d):
                module[0] = fuse_conv_bn_eval(convolution, normalisation)
                module[1] = nn.Identity()
    return guide
