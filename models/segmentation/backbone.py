"""MobileNetV2 (Sandler et al., CVPR 2018) as the guide's encoder, with published weights.

`python -m palmkit.models.segmentation.backbone TFLITE OUT.npz` reads the ImageNet classifier with
our own converter and writes the weights of its convolutions, so that training needs PyTorch alone.
Animals, vehicles and furniture are what people are with in pictures; ImageNet knows these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.training.start import Weights, start_with, weights_of

# Expansion, channels, blocks and stride of each stage (table 2 of the paper).
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
# The stages whose maps are the last of strides 2 to 32, and the channels of these.
LAST = (0, 1, 2, 4, 6)
CHANNELS = (16, 24, 32, 96, 320)


def write(path: Path, out: Path) -> None:
    """Write weight and bias of every convolution of the classifier, in order, as float32."""
    from palmkit.engine import convert

    content: dict[str, Any] = {}
    # The last two belong to the classifier.
    for index, (weight, bias) in enumerate(weights_of(convert(path))[:-2]):
        content |= {f"weight{index}": weight, f"bias{index}": bias}
    np.savez_compressed(out, **content)


def read(path: Path) -> list[Weights]:
    """Return what `write` wrote: weight and bias of each convolution."""
    with np.load(path) as content:
        count = len(content.files) // 2
        return [(content[f"weight{index}"], content[f"bias{index}"]) for index in range(count)]


class Convolve(nn.Module):
    """A convolution with TensorFlow's padding SAME, normalised, with ReLU6 if asked for."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        """Build it; channels in and out, side of the kernel, stride, groups."""
        super().__init__()
        # One more row and column at the end where the stride is two.
        self.uneven = kernel > 1 and stride > 1
        padding = 0 if self.uneven else kernel // 2
        self.convolution = nn.Conv2d(
            inputs, outputs, kernel, stride, padding, groups=groups, bias=False
        )
        self.norm = nn.BatchNorm2d(outputs, momentum=0.03)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, inputs, h, w] to float32[n, outputs, h / stride, w / stride]."""
        if self.uneven:
            x = functional.pad(x, (0, 1, 0, 1))
        y: Tensor = self.norm(self.convolution(x))
        return y


class Inverted(nn.Module):
    """An inverted residual: wider, depthwise, and narrower again without an activation."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int) -> None:
        """Build it; channels in and out, how much wider, stride."""
        super().__init__()
        width = inputs * expansion
        self.wider = Convolve(inputs, width, 1) if expansion > 1 else None
        self.depthwise = Convolve(width, width, 3, stride, groups=width)
        self.narrower = Convolve(width, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, inputs, h, w] to float32[n, outputs, h / stride, w / stride]."""
        y = x if self.wider is None else functional.relu6(self.wider(x))
        y = self.narrower(functional.relu6(self.depthwise(y)))
        return x + y if self.shortcut else y


class MobileNetV2(nn.Module):
    """The network without its classifier: maps at strides 2 to 32."""

    def __init__(self, stages: int = len(STAGES)) -> None:
        """Build as many of its stages with random weights."""
        super().__init__()
        self.stem = Convolve(3, 32, 3, 2)
        built: list[nn.Module] = []
        inputs = 32
        for expansion, width, count, stride in STAGES[:stages]:
            blocks = [Inverted(inputs, width, expansion, stride)]
            blocks += [Inverted(width, width, expansion, 1) for _ in range(count - 1)]
            built.append(nn.Sequential(*blocks))
            inputs = width
        self.stages = nn.ModuleList(built)
        self.last = {*LAST[:-1], stages - 1}

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map float32[n, 3, h, w], RGB 0..1, to maps at strides 2 to 32, the last of each."""
        x = functional.relu6(self.stem(x))
        maps: list[Tensor] = []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in self.last:
                maps.append(x)
        return maps


def pretrained(path: Path, images: Tensor, stages: int = len(STAGES)) -> MobileNetV2:
    """Return so many stages of the network with the weights of a file that `write` wrote.

    images: float32[n, 3, h, w], RGB 0..1, which the normalisations take their statistics from.
    """
    network: MobileNetV2 = MobileNetV2(stages).to(images.device)
    count = sum(isinstance(module, nn.Conv2d) for module in network.modules())
    (weight, bias), *others = read(path)[:count]
    # The published network sees colours from -1 to 1.
    first = weight, bias - weight.sum(axis=(1, 2, 3))
    start_with(network, [first, *others], images, unit=2)
    return network


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="read MobileNetV2's weights for training")
    parser.add_argument("network", type=Path, help="mobilenet_v2_1.0_224_quant.tflite")
    parser.add_argument("out", type=Path, help="the .npz file")
    options = parser.parse_args(None if arguments is None else list(arguments))
    write(options.network, options.out)


if __name__ == "__main__":
    main()
