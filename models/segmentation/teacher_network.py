"""Published networks that see people, as PyTorch modules that guides read during training.

`python -m palmkit.models.segmentation.teacher_network TFLITE OUT.npz` reads the selfie segmentation
with our own converter and writes its steps and weights, so that training needs PyTorch alone; with
`--pose` the detector of BlazePose, of which only what its FEATURES need is written.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from palmkit.engine.ir import Node

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
# Ends of names: the pose detector's maps at strides 8, 16 and 32, on its way up.
POSE_FEATURES = ("add_14/add/before", "add_11/add/before", "conv2d_31/Conv2D1/conv/small")
POSE_CHANNELS = (96, 192, 192)


def write(path: Path, out: Path, features: Sequence[str] = ()) -> None:
    """Write the optimised network's nodes and weights.

    features: ends of the names of what alone is needed; none: all of the network is.
    """
    from palmkit.engine import convert, optimise

    graph = optimise(convert(path))
    if features:
        made = [node.outputs[0] for node in graph.nodes]
        ends = [next(name for name in made if name.endswith(end)) for end in features]
        graph = graph.with_nodes(tuple(needed(graph.nodes, ends)))
    used = {name for node in graph.nodes for name in node.inputs}
    steps: list[dict[str, Any]] = [
        {
            "op": node.op,
            "inputs": node.inputs,
            "output": node.outputs[0],
            "attrs": {
                key: value
                for key, value in node.attrs.items()
                if key in ("activation", "activation_params", "group", "pads", "strides")
            },
        }
        for node in graph.nodes
        if node.op != "transpose"
    ]
    for step in steps:
        if step["op"] == "clip":
            limits = [float(graph.constants[name]) for name in step["inputs"][1:]]
            step["attrs"] = {"activation_params": limits}
    content: dict[str, Any] = {"steps": json.dumps(steps)}
    content |= {name: value for name, value in graph.constants.items() if name in used}
    np.savez_compressed(out, **content)


def needed(nodes: Sequence[Node], names: Iterable[str]) -> list[Node]:
    """Return the nodes that the values called so are computed by, in order."""
    wanted, found = set(names), list[Node]()
    for node in reversed(nodes):
        if wanted & set(node.outputs):
            wanted |= set(node.inputs)
            found.append(node)
    return found[::-1]


def activated(x: Tensor, name: str, limits: Sequence[float] = ()) -> Tensor:
    """Apply the activation called `name` in the graph; limits: of "clip", 0 and more if any."""
    if name == "clip" and math.isfinite(max(limits, default=math.inf)):
        return functional.hardtanh(x, *limits)
    if name == "clip":
        return functional.relu(x)
    if name == "hard_swish":
        return functional.hardswish(x)
    return x.sigmoid() if name == "sigmoid" else x


class StoredNetwork(nn.Module):
    """A network that `write` stored.

    features: ends of the names of maps that are read.
    """

    features: ClassVar[tuple[str, ...]]

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
        made = [step["output"] for step in self.steps]
        self.read = [next(name for name in made if name.endswith(end)) for end in self.features]

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
        return activated(y, given.get("activation", ""), given.get("activation_params", ()))

    def run(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Map float32[n, 3, h, w], as the network expects them, to its result and features."""
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
            elif op == "clip":
                last = activated(values[names[0]], op, step["attrs"]["activation_params"])
            elif op == "resize":
                last = functional.interpolate(
                    values[names[0]], scale_factor=2.0, mode="bilinear", align_corners=False
                )
            else:
                raise ValueError(f"no such step: {op}")
            values[step["output"]] = last
        return last, [values[name] for name in self.read]


class SelfieNetwork(StoredNetwork):
    """The selfie segmentation."""

    features: ClassVar = FEATURES

    def forward(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Map float32[n, 3, 256, 256], RGB 0..1, to logits and FEATURES.

        The logits are float32[n, 1, 256, 256].
        """
        return self.run(images)


class PoseNetwork(StoredNetwork):
    """The pose detector, which was shown people in every pose, from far and from behind."""

    features: ClassVar = POSE_FEATURES

    def forward(self, images: Tensor) -> list[Tensor]:
        """Map float32[n, 3, h, w], RGB 0..1, sides multiples of 32, to POSE_FEATURES."""
        return self.run(2 * images - 1)[1]


def main(arguments: Iterable[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description="read a published network for training")
    parser.add_argument("network", type=Path, help="selfie_segmentation or pose_detection.tflite")
    parser.add_argument("out", type=Path, help="the .npz file")
    parser.add_argument("--pose", action="store_true", help="the network is the pose detector")
    options = parser.parse_args(None if arguments is None else list(arguments))
    write(options.network, options.out, POSE_FEATURES if options.pose else ())


if __name__ == "__main__":
    main()
