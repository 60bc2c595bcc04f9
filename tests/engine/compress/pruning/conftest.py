"""Graphs to compress."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from palmkit.engine.ir import Array, Attr, Graph, Node, Type


class Builder:
    """Writes a graph node by node, with seeded weights."""

    def __init__(self, seed: int = 0) -> None:
        self.draw = np.random.default_rng(seed)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def constant(self, value: Any, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        array = np.asarray(value)
        array.flags.writeable = False
        self.constants[name] = array
        return name

    def weights(self, *shape: int) -> str:
        scale = max(prod(shape[1:]), 1) ** -0.5
        return self.constant((self.draw.standard_normal(shape) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, outputs: int = 0, **attrs: Attr) -> Any:
        names = tuple(f"{op}{len(self.nodes)}_{at}" for at in range(max(outputs, 1)))
        self.nodes.append(Node(op, inputs, names, attrs))
        return names if outputs else names[0]

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 1, **attrs: Any) -> str:
        """Add a convolution with a bias, padded so that the size stays."""
        group = attrs.get("group", 1)
        weight = self.weights(outputs, inputs // group, kernel, kernel)
        pads = (kernel // 2,) * 4
        return str(self.add("conv", x, weight, self.weights(outputs), pads=pads, **attrs))

    def graph(self, inputs: dict[str, Type], **outputs: tuple[str, Type]) -> Graph:
        """outputs: the value that each stands for."""
        names = {value: name for name, (value, _) in outputs.items()}

        def named(values: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(names.get(value, value) for value in values)

        nodes = tuple(
            Node(n.op, named(n.inputs), named(n.outputs), n.attrs, n.name) for n in self.nodes
        )
        types = {name: type for name, (_, type) in outputs.items()}
        return Graph(inputs, types, nodes, self.constants)


def image(*shape: int | str) -> dict[str, Type]:
    """Return the input of a network."""
    return {"image": Type("float32", shape)}


@pytest.fixture
def build() -> type[Builder]:
    """Return a builder of graphs."""
    return Builder


@pytest.fixture
def classifier() -> Graph:
    """Return convolutions, a residual, depthwise layers, a concatenation, two linear layers."""
    b = Builder()
    x = b.add("relu", b.conv("image", 3, 12, 3, strides=(2, 2)))
    y = b.add("relu", b.conv(b.conv(x, 12, 12, 3, group=12), 12, 12))
    x = b.add("relu", b.add("add", x, y))
    left, right = b.add("relu", b.conv(x, 12, 8)), b.add("relu", b.conv(x, 12, 10, 3))
    x = b.add("concat", left, right, axis=1)
    x = b.add("flatten", b.add("global_average_pool", x), axis=1)
    x = b.add("relu", b.add("gemm", x, b.weights(16, 18), b.weights(16), transB=1))
    x = b.add("gemm", x, b.weights(5, 16), b.weights(5), transB=1)
    return b.graph(image(1, 3, 16, 16), logits=(x, Type("float32", (1, 5))))


@pytest.fixture
def everything() -> Graph:
    """Return a graph with every way in which channels pass, one after the other."""
    b = Builder()
    pads = b.constant(np.array([0, 0, 0, 0, 0, 6, 0, 0]))
    x = b.conv("image", 3, 10, 3)
    norm = [b.weights(10), b.weights(10), b.weights(10)]
    norm.append(b.constant(np.abs(b.draw.standard_normal(10)).astype(np.float32) + 0.5))
    x = b.add("prelu", b.add("batch_normalization", x, *norm), b.weights(10, 1, 1))
    # A wider residual, over channels of zeros.
    x = b.add("add", b.conv(x, 10, 16, 3), b.add("pad", x, pads))
    gate = b.add("sigmoid", b.conv(b.add("global_average_pool", x), 16, 16))
    x = b.add("mul", x, gate)
    # A slice and a split of the channels.
    sizes = b.constant(np.array([6, 10]))
    first, second = b.add("split", b.add("hard_swish", x), sizes, outputs=2, axis=1)
    ends = [b.constant(np.array([each])) for each in (2, 9, 1)]
    part = b.add("slice", second, *ends)
    x = b.add("concat", b.conv(first, 6, 8), part, b.conv("image", 3, 4), axis=1)
    x = b.conv(b.add("max_pool", x, kernel_shape=(2, 2), strides=(2, 2)), 19, 12)
    x = b.add("mul", x, b.weights(1, 12, 1, 1))
    double = b.constant(np.array([1, 12, 12, 12]))
    up = b.add("resize", x, "", "", double, mode="nearest")
    turned = b.add("conv_transpose", x, b.weights(12, 7, 2, 2), b.weights(7), strides=(2, 2))
    x = b.add("concat", up, turned, axis=1)
    # A depthwise layer that doubles the channels.
    x = b.add("relu", b.conv(x, 19, 38, 3, group=19))
    x = b.add("transpose", x, perm=(0, 2, 3, 1))
    rows = b.add("reshape", x, b.constant(np.array([1, 144, 38])))
    y = b.add("add", b.add("matmul", rows, b.weights(38, 9)), b.weights(9))
    y = b.add("matmul", b.add("softmax", y, axis=1), b.weights(9, 4))
    mean = b.add("reduce_mean", x, b.constant(np.array([1, 2])), keepdims=0)
    z = b.add("gemm", mean, b.weights(38, 6), b.weights(6))
    whole = b.add("reshape", x, b.constant(np.array([1, 144 * 38])))
    w = b.add("matmul", whole, b.weights(144 * 38, 3))
    return b.graph(
        image(1, 3, 12, 12),
        rows=(y, Type("float32", (1, 144, 4))),
        mean=(z, Type("float32", (1, 6))),
        whole=(w, Type("float32", (1, 3))),
    )


@pytest.fixture
def sample() -> Callable[..., dict[str, Array]]:
    """Return a function that makes a static graph's inputs: noise over random colours."""

    def draw_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
        draw = np.random.default_rng(seed)
        return {
            name: (
                draw.standard_normal(type.dims) + 2 * draw.standard_normal((*type.dims[:2], 1, 1))
            ).astype(type.dtype)
            for name, type in graph.inputs.items()
        }

    return draw_inputs
