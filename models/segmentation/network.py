"""The network: depthwise-separable residual stages, and a decoder back to the full resolution.

Width grows where maps are small and cost little: most weights are at strides 16 and 32, where
it is decided what is a person; strides 2 and 4 only draw the edge.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.segmentation.backbone import CHANNELS, MobileNetV2
from palmkit.models.training.blocks import Separable, convolve

SIZE = 256
# Of the views that the finder learns from; export.py has the size that ships.
FINDER_SIZE = 160


class Context(nn.Module):
    """Adds global context: pooled, mapped, and equal at every place."""

    def __init__(self, channels: int) -> None:
        """Make one pointwise map."""
        super().__init__()
        self.map = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, channels, h, w] to the same shape."""
        y: Tensor = self.map(x.mean(dim=(2, 3), keepdim=True))
        return functional.relu(x + y)


class Merge(nn.Module):
    """One step up: the coarser map, doubled, beside the encoder's map of this stride."""

    def __init__(self, above: int, beside: int, outputs: int, light: bool = False) -> None:
        """Build the step: channels of the coarser map, of the encoder's map, of the result.

        light: whether only a depthwise convolution follows, not a separable one.
        """
        super().__init__()
        self.above = convolve(above, outputs, 1)
        self.beside = nn.Identity() if beside == outputs else convolve(beside, outputs, 1)
        self.block = (
            nn.Sequential(convolve(outputs, outputs, 3, groups=outputs), nn.ReLU())
            if light
            else Separable(outputs, outputs)
        )

    def forward(self, above: Tensor, beside: Tensor) -> Tensor:
        """Return float32[n, outputs, h, w] of the encoder's size."""
        coarse = functional.interpolate(
            self.above(above), scale_factor=2.0, mode="bilinear", align_corners=False
        )
        result: Tensor = self.block(functional.relu(self.beside(beside) + coarse))
        return result


def doubled(layer: nn.ConvTranspose2d, x: Tensor) -> Tensor:
    """Compute a 2x2 transposed convolution of stride 2 to one channel, faster on a GPU."""
    assert layer.bias is not None
    weight = layer.weight.flatten(1).t()[:, :, None, None]
    return functional.pixel_shuffle(functional.conv2d(x, weight, layer.bias.expand(4)), 2)


class Widths(NamedTuple):
    """Sizes of a network.

    channels: at strides 2 to 32. blocks, kernels: at strides 4 to 32. decoder: channels at strides
    16 to 2, or to 4, which makes a mask of half the size. light: from this step of the decoder on,
    depthwise convolutions alone. contexts: stages, from stride 4 on, that are followed by global
    context; the last always is. published: how many stages of MobileNetV2, whose channels these
    then have to be, stand in the stages' place; 0: none. side: of the views, in pixels.
    """

    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    kernels: tuple[int, ...]
    decoder: tuple[int, ...]
    light: int
    contexts: tuple[int, ...] = ()
    published: int = 0
    side: int = SIZE


PORTRAIT = Widths((16, 32, 48, 96, 144), (0, 1, 6, 8), (3, 3, 5, 5), (48, 32, 32, 16), 2, (1, 2))
HAIR = Widths((16, 32, 64, 112, 144), (1, 2, 4, 4), (3, 3, 5, 5), (64, 48, 32, 16), 3)
FINDER = Widths((16, 32, 48, 80, 112), (0, 1, 6, 8), (3, 3, 5, 5), (48, 32, 32), 2, (1, 2))
# They know ImageNet's classes before they learn.
BEST = Widths((*CHANNELS[:-1], 160), (), (), (96, 64, 48, 24), 2, published=6)
WIDTHS = {
    "portrait": PORTRAIT,
    # People far away are seen in few pixels, and this one is for pictures more than for videos.
    "portrait_best": BEST._replace(side=320),
    "hair": HAIR,
    "hair_best": BEST,
    "person_finder": FINDER,
}


class Maps(NamedTuple):
    """A network's outputs, NCHW.

    logits: float32[n, 1, h, w], or of half the size; coarse: float32[n, 1, h / 8, w / 8], logits
    for training alone; features: the encoder's maps at strides 4, 8 and 16, the decoder's from 16
    on.
    """

    logits: Tensor
    coarse: Tensor
    features: list[Tensor]


class Encoder(nn.Module):
    """Residual stages of separable convolutions: maps at strides 2 to 32."""

    def __init__(self, widths: Widths) -> None:
        """Build an encoder of this size."""
        super().__init__()
        channels = widths.channels
        self.stem = convolve(3, channels[0], 3, 2)
        stages: list[nn.Module] = []
        for index, (count, kernel) in enumerate(zip(widths.blocks, widths.kernels, strict=True)):
            inputs, width = channels[index], channels[index + 1]
            stages.append(
                nn.Sequential(
                    Separable(inputs, width, kernel, 2),
                    *(Separable(width, width, kernel) for _ in range(count)),
                )
            )
        self.stages = nn.ModuleList(stages)
        contexts = (
            Context(width) if index in widths.contexts else nn.Identity()
            for index, width in enumerate(channels[1:-1])
        )
        self.contexts = nn.ModuleList([*contexts, Context(channels[-1])])

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map float32[n, 3, h, w], RGB 0..1, to maps at strides 2 to 32."""
        x = functional.relu(self.stem(x))
        maps = [x]
        for stage, context in zip(self.stages, self.contexts, strict=True):
            x = context(stage(x))
            maps.append(x)
        return maps


class Published(nn.Module):
    """MobileNetV2's first stages, and global context: maps at strides 2 to 32."""

    def __init__(self, widths: Widths) -> None:
        """Build it with random weights."""
        super().__init__()
        self.network = MobileNetV2(widths.published)
        self.context = nn.Conv2d(widths.channels[-1], widths.channels[-1], 1)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map float32[n, 3, h, w], RGB 0..1, to maps at strides 2 to 32."""
        *maps, last = self.network(x)
        return [*maps, last + self.context(last.mean(dim=(2, 3), keepdim=True))]


class MaskNetwork(nn.Module):
    """A network from RGB 0..1 to one logit a pixel."""

    def __init__(self, widths: Widths = PORTRAIT) -> None:
        """Build a network of this size."""
        super().__init__()
        channels, decoder = widths.channels, widths.decoder
        self.encoder = Published(widths) if widths.published else Encoder(widths)
        merges: list[nn.Module] = []
        above = channels[-1]
        for step, (width, beside) in enumerate(zip(decoder, channels[-2::-1], strict=False)):
            merges.append(Merge(above, beside, width, light=step >= widths.light))
            above = width
        self.merges = nn.ModuleList(merges)
        self.coarse = nn.Conv2d(decoder[1], 1, 1)
        self.mask = nn.ConvTranspose2d(above, 1, 2, 2)

    def forward(self, x: Tensor) -> Maps:
        """Predict from float32[n, 3, h, w], sides multiples of 32."""
        maps = self.encoder(x)
        x = maps[-1]
        features = maps[1:4]
        for merge, beside in zip(self.merges, maps[3::-1], strict=False):
            x = merge(x, beside)
            features.append(x)
        logits = doubled(self.mask, x) if self.training else self.mask(x)
        return Maps(logits, self.coarse(features[4]), features)


class ExportedNetwork(nn.Module):
    """The network as the kit runs it: RGB 0..255 NHWC in, probabilities NHWC out."""

    def __init__(self, network: MaskNetwork) -> None:
        """Wrap a trained network, whose first convolution takes the division by 255."""
        super().__init__()
        self.network = network
        first = next(each for each in network.modules() if isinstance(each, nn.Conv2d))
        with torch.no_grad():
            first.weight /= 255

    def forward(self, image: Tensor) -> Tensor:
        """Map float32[1, h, w, 3] to float32[1, h, w, 1]."""
        maps: Maps = self.network(image.permute(0, 3, 1, 2))
        return maps.logits.sigmoid().permute(0, 2, 3, 1)
