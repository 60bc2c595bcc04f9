"""The selfie segmentation network as a PyTorch module, for hints during training.

`python -m palmkit.models.segmentation.teacher_network TFLITE OUT.npz` reads the network with our
own converter and writes its steps and weights, so that training needs PyTorch alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

# What our maps are compared with: strides 4, 8, 16 on the way down; 16, 8, 4, 2 on the way up.
FEATURES = (
    "conv2d_4/conv",
    "add__xeno_compat__1/before",
    "add_4__xeno_compat__1/before",
    "multiply_6/before",
    "add_7__xeno_compat__1/before",
    "add_10__xeno_compat__1/before",
    "add_13__xeno_compat__1/before",
)
FEATURE_CHANNELS = (16, 24, 32, 128, 24, 16, 16)


def write(path: Path, out: Path) -> None:
    """Write the optimised network's nodes and weights."""
    from palmkit.engine import convert, optimise

    graph = optimise(convert(path))
    used = {name for node in graph.nodes for name in node.inputs}
    steps = [
        {
            "op": node.op,
            "inputs": node.inputs,
            "output": node.outputs[0],
            "attrs": {
                key: value
                for key, value in node.attrs.items()
                if key in ("activation", "group", "pads", "strides")
            },
        }
        for node in graph.nodes
        if node.op != "transpose"
    ]
    content: dict[str, Any] = {"steps": json.dumps(steps)}
    content |= {name: value for name, value in graph.constants.items() if name in used}
    np.savez(out, **content)


def activated(x: Tensor, name: str) -> Tensor:
    """Apply the activation called `name` in the graph."""
    if name == "clip":
        return functional.relu(x)
    if name == "hard_swish":
        return functional.hardswish(x)
    return x.sigmoid() if name == "sigmoid" else x


class SelfieNetwork(nn.Module):
    """The network that `write` stored."""

    def __init__(self, path: Path) -> None:
        """Read steps and weights from the file."""
        super().__init__()
        with np.load(path) as content:
            self.steps: list[dict[str, Any]] = json.loads(str(content["steps"]))
            self.keys = {name: f"w{index}" for index, name in enumerate(content.files)}
            for name in content.files:
                if content[name].dtype == np.float32:
                    self.register_buffer(self.keys[name], torch.from_numpy(content[name]))
        self.input: str = self.steps[0]["inputs"][0]

    def convolved(self, step: dict[str, Any], values: dict[str, Tensor]) -> Tensor:
        """Apply one convolution with the ops fused to it."""
        given, names = step["attrs"], step["inputs"]
        x = values[names[0]]
        weight, bias = (getattr(self, self.keys[name]) for name in names[1:3])
        if step["op"] == "fused_conv_transpose":
            # 2x2 with stride 2 to one channel, written so that a GPU is fast at it.
            four = weight.flatten(1).t()[:, :, None, None]
            return functional.pixel_shuffle(functional.conv2d(x, four, bias.expand(4)), 2)
        top, left, bottom, right = given.get("pads", (0, 0, 0, 0))
        if (top, left) == (bottom, right):
            padding = (top, left)
        else:
            x, padding = functional.pad(x, (left, right, top, bottom)), (0, 0)
        y = functional.conv2d(x, weight, bias, given["strides"], padding, groups=given["group"])
        if len(names) > 3:
            y = y + values[names[3]]
        return activated(y, given.get("activation", ""))

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Map float32[n, 3, 256, 256], RGB 0..1, to logits and FEATURES.

        The logits are float32[n, 1, 256, 256].
        """
        values: dict[str, Tensor] = {self.input: images}
        last = images
        for step in self.steps:
            op, names = step["op"], step["inputs"]
            if "conv" in op:
                last = self.convolved(step, values)
            elif op == "global_average_pool":
                last = values[names[0]].mean(dim=(2, 3), keepdim=True)
            elif op == "mul":
                last = values[names[0]] * values[names[1]]
            elif op == "add":
                last = values[names[0]] + values[names[1]]
            elif op == "multiply_add":
                last = values[names[0]] * values[names[1]] + values[names[2]]
            elif op == "resize":
                last = functional.interpolate(
                    values[names[0]], scale_factor=2.0, mode="bilinear", align_corners=False
                )
            else:
                raise ValueError(f"no such step: {op}")
            values[step["output"]] = last
        return last, [values[name] for name in FEATURES]


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="read the selfie segmentation for training")
    parser.add_argument("network", type=Path, help="selfie_segmentation.tflite")
    parser.add_argument("out", type=Path, help="the .npz file")
    options = parser.parse_args(None if arguments is None else list(arguments))
    write(options.network, options.out)


if __name__ == "__main__":
    main()
