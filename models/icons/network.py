"""The icon network.

SqueezeNet 1.1 (Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, 2016),
with batch normalisation, for pictures of 64 or 96 pixels.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from palmkit.models.icons.shapes import CLASSES

# Subtracted from a colour of 0..255, and the divisor.
MIDDLE, SPAN = 127.5, 64.0
DROPOUT = 0.2
# Width of each fire module's squeeze and of both its expansions; pools come before some of them.
FIRES = (
    (16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256),
)  # fmt: skip
POOLED = (0, 2, 4)


class Layer(nn.Module):
    """A convolution with batch normalisation and ReLU."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        """Build the layer.

        kernel: padded so that the size stays, except for a stride of 2.
        """
        super().__init__()
        pad = kernel // 2 if stride == 1 else 0
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, pad, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return float32[n, outputs, h, w]."""
        y: Tensor = self.norm(self.convolution(x))
        return torch.relu(y)


class Fire(nn.Module):
    """A 1x1 squeeze, followed by parallel 1x1 and 3x3 expansions."""

    def __init__(self, inputs: int, narrow: int, wide: int) -> None:
        """Build the module with twice `wide` outputs."""
        super().__init__()
        self.squeeze = Layer(inputs, narrow, 1)
        self.left = Layer(narrow, wide, 1)
        self.right = Layer(narrow, wide, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return float32[n, 2 * wide, h, w]."""
        x = self.squeeze(x)
        return torch.cat([self.left(x), self.right(x)], 1)


class SqueezeNet(nn.Module):
    """A network from float32[n, 3, h, w], RGB 0..255, to logits float32[n, classes]."""

    def __init__(self, classes: int = len(CLASSES)) -> None:
        """Start with random weights."""
        super().__init__()
        self.stem = Layer(3, 64, 3, 2)
        inputs = 64
        fires: list[nn.Module] = []
        for narrow, wide in FIRES:
            fires.append(Fire(inputs, narrow, wide))
            inputs = 2 * wide
        self.fires = nn.ModuleList(fires)
        self.pool = nn.MaxPool2d(3, 2, ceil_mode=True)
        self.dropout = nn.Dropout(DROPOUT)
        self.classifier = nn.Conv2d(inputs, classes, 1)
        self.normalised = False

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits."""
        if not self.normalised:
            image = (image - MIDDLE) / SPAN
        x = self.stem(image)
        for at, fire in enumerate(self.fires):
            x = fire(self.pool(x) if at in POOLED else x)
        logits: Tensor = self.classifier(self.dropout(x))
        return logits.mean((2, 3))

    def layers(self) -> list[Layer]:
        """Return every convolution with batch normalisation, in order."""
        return [module for module in self.modules() if isinstance(module, Layer)]

    def convolutions(self) -> list[nn.Conv2d]:
        """Return every convolution, in order; the classifier is the last."""
        return [module for module in self.modules() if isinstance(module, nn.Conv2d)]

    def inputs_of(self) -> list[list[int]]:
        """Return for each convolution the numbers of those whose outputs it reads, concatenated."""
        reads: list[list[int]] = [[]]
        last = [0]
        for _ in self.fires:
            squeeze = len(reads)
            reads += [last, [squeeze], [squeeze]]
            last = [squeeze + 1, squeeze + 2]
        return [*reads, last]


@torch.no_grad()
def folded(network: SqueezeNet) -> SqueezeNet:
    """Return the network for inference: normalisations are folded into weights and biases."""
    plain: SqueezeNet = copy.deepcopy(network).eval()
    for layer in plain.layers():
        norm = layer.norm
        assert isinstance(norm, nn.BatchNorm2d)
        assert norm.running_var is not None and norm.running_mean is not None
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        layer.convolution.weight.mul_(gain[:, None, None, None])
        layer.convolution.bias = nn.Parameter(norm.bias - norm.running_mean * gain)
        layer.norm = nn.Identity()
    stem = plain.stem.convolution
    assert stem.bias is not None
    stem.weight.div_(SPAN)
    stem.bias.sub_(MIDDLE * stem.weight.sum((1, 2, 3)))
    plain.normalised = True
    return plain


def restored(arrays: Mapping[str, npt.NDArray[np.float32]]) -> SqueezeNet:
    """Return a folded network from its arrays, which may have fewer channels."""
    network: SqueezeNet = folded(SqueezeNet())
    for name, value in arrays.items():
        part, _, kind = name.rpartition(".")
        setattr(network.get_submodule(part), kind, nn.Parameter(torch.from_numpy(value)))
    return network
