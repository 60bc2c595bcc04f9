"""Blocks that the networks are made of."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional


def convolve(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return a convolution without bias, followed by batch normalisation."""
    padding = kernel // 2
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, momentum=0.03),
    )


class Separable(nn.Module):
    """A depthwise and a pointwise convolution, with a shortcut where the shapes allow one."""

    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> None:
        """Build the block: channels in and out, size of the depthwise kernel, stride."""
        super().__init__()
        self.depthwise = convolve(inputs, inputs, kernel, stride, groups=inputs)
        self.pointwise = convolve(inputs, outputs, 1)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map float32[n, inputs, h, w] to float32[n, outputs, h / stride, w / stride]."""
        y: Tensor = self.pointwise(functional.relu(self.depthwise(x)))
        return functional.relu(x + y if self.shortcut else y)
