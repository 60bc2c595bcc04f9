"""YuNet as a PyTorch module, read from its ONNX file, for distillation during training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class YuNet(nn.Module):
    """The convolutional part: score and neck features of each stride."""

    def __init__(self, path: Path) -> None:
        """Read the weights and the order of the nodes from the file."""
        super().__init__()
        import onnx
        from onnx import numpy_helper

        graph = onnx.load(path).graph
        makers = {name: node for node in graph.node for name in node.output}

        def convolution_behind(name: str) -> str:
            while makers[name].op_type != "Conv":
                name = makers[name].input[0]
            return name

        self.scores = [
            (convolution_behind(f"cls_{stride}"), convolution_behind(f"obj_{stride}"))
            for stride in (8, 16, 32)
        ]
        shared = "bbox_head.multi_level_share_convs"
        heads = [node for node in graph.node if node.op_type == "Conv" and shared in node.input[1]]
        self.features = [node.input[0] for node in heads]
        self.steps: list[tuple[str, list[str], str, dict[str, Any]]] = []
        for node in graph.node:
            if node.op_type not in {"Conv", "Relu", "MaxPool", "Resize", "Add"}:
                continue
            given = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
            self.steps.append((node.op_type, list(node.input), node.output[0], given))
        for item in graph.initializer:
            values = torch.from_numpy(numpy_helper.to_array(item).copy())
            if values.dim() in (1, 4) and values.is_floating_point():
                self.register_buffer(self.key(item.name), values)
        self.input = graph.input[0].name

    @staticmethod
    def key(name: str) -> str:
        """Return the buffer name of an initialiser."""
        return "w_" + name.replace(".", "_")

    def forward(self, images: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Map float32[n, 3, h, w], RGB 0..1, to scores [n, h, w] and features [n, 64, h, w]."""
        values: dict[str, Tensor] = {self.input: images.flip(1) * 255}
        for kind, inputs, output, given in self.steps:
            x = values[inputs[0]]
            if kind == "Conv":
                weight, bias = (getattr(self, self.key(name)) for name in inputs[1:3])
                stride, padding = given["strides"][0], given["pads"][0]
                values[output] = functional.conv2d(
                    x, weight, bias, stride, padding, groups=given["group"]
                )
            elif kind == "Relu":
                values[output] = functional.relu(x)
            elif kind == "MaxPool":
                values[output] = functional.max_pool2d(x, 2)
            elif kind == "Resize":
                values[output] = functional.interpolate(x, scale_factor=2.0, mode="nearest")
            else:
                values[output] = x + values[inputs[1]]
        scores = [
            (values[first].sigmoid() * values[second].sigmoid()).sqrt()[:, 0]
            for first, second in self.scores
        ]
        return scores, [values[name] for name in self.features]
