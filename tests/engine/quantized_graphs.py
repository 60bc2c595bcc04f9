"""Quantized graphs made on the spot: float ops between dequantize_linear and quantize_linear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from palmkit.engine.ir import Array, Attr, Graph, Node, Type
from palmkit.engine.ops import infer_types

_RANGE = {"uint8": (0, 255), "int8": (-128, 127)}


@dataclass(frozen=True)
class Value:
    """A float value of the graph, and its dims."""

    name: str
    dims: tuple[int, ...]


class Maker:
    """Writes a graph whose float values all pass through bytes."""

    def __init__(self, seed: int, dtype: str = "uint8", border: str = "float32") -> None:
        """Start; dtype: of the integers between ops; border: of graph input and output."""
        self.random = np.random.default_rng(seed)
        self.dtype = dtype
        self.border = border
        self.inputs: dict[str, Type] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def add(self, op: str, *inputs: str, **attrs: Attr) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (name,), attrs, f"{op}{len(self.nodes)}"))
        return name

    def parameters(self, spread: float, middle: float = 0.0) -> tuple[str, str]:
        """Return scale and zero point for numbers of that spread round the middle."""
        least, most = _RANGE[self.dtype]
        scale = np.float32(spread * self.random.uniform(4, 6) / 255)
        zero = np.rint((least + most) / 2 - middle / scale)
        zero_point = np.array(np.clip(zero, least, most), self.dtype)
        return self.constant(np.array(scale)), self.constant(zero_point)

    def input(self, *dims: int) -> Value:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = Type(self.border, dims)
        if self.border == "float32":
            return self.rounded(Value(name, dims), 1.0, 0.2)
        dequantized = self.add("dequantize_linear", name, *self.parameters(1.0))
        return Value(dequantized, dims)

    def rounded(self, x: Value, spread: float, middle: float = 0.0) -> Value:
        """Return x on a grid of its own."""
        parameters = self.parameters(spread, middle)
        levels = self.add("quantize_linear", x.name, *parameters)
        return Value(self.add("dequantize_linear", levels, *parameters), x.dims)

    def like(self, x: Value) -> Value:
        """Return x on the grid of another value, as after an op that only moves elements."""
        return self.rounded(x, 1.0)

    def weights(self, *dims: int, axis: int | None = 0) -> str:
        """int8 weights behind dequantize_linear, a scale for each index of the axis or one."""
        levels = np.clip(np.rint(self.random.normal(size=dims) * 45), -127, 127).astype(np.int8)
        count = 1 if axis is None else dims[axis]
        fan = np.sqrt(np.prod(dims) / (dims[axis or 0] or 1))
        scale = (self.random.uniform(0.5, 1.5, count) / (45 * fan)).astype(np.float32)
        attrs: dict[str, Attr] = {} if axis is None else {"axis": axis}
        scale = scale.reshape(()) if axis is None else scale
        zero = np.zeros(scale.shape, np.int8)
        names = [self.constant(each) for each in (levels, scale, zero)]
        return self.add("dequantize_linear", *names, **attrs)

    def conv(
        self, x: Value, channels: int, kernel: tuple[int, ...], *more: str, **attrs: Any
    ) -> Value:
        """Add a convolution without rounding after it; more: ops on its result."""
        group = int(attrs.get("group", 1))
        weights = self.weights(channels, x.dims[1] // group, *kernel)
        bias = (self.random.normal(size=channels) * 0.3).astype(np.float32)
        name = self.add("conv", x.name, weights, self.constant(bias), **attrs)
        for op in more:
            name = self.add(op, name)
        return Value(name, self.dims_of(name))

    def dims_of(self, name: str) -> tuple[int, ...]:
        graph = Graph(self.inputs, {}, tuple(self.nodes), self.constants)
        return infer_types(graph)[name].dims

    def graph(self, *outputs: Value) -> Graph:
        """Return the graph; at an integer border it outputs the integers."""
        names = [value.name for value in outputs]
        if self.border != "float32":
            producers = {name: node for node in self.nodes for name in node.outputs}
            names = [producers[name].inputs[0] for name in names]
        graph = Graph(self.inputs, {}, tuple(self.nodes), self.constants)
        types = infer_types(graph)
        given = {name: Type(types[name].dtype, types[name].shape) for name in names}
        return Graph(self.inputs, given, graph.nodes, graph.constants)

    def arrays(self) -> dict[str, Array]:
        """Return an array for each input."""
        return {
            name: self.random.normal(0.2, 1, type.dims).astype(np.float32)
            if type.dtype == "float32"
            else self.random.integers(*_RANGE[type.dtype], type.dims, endpoint=True).astype(
                type.dtype
            )
            for name, type in self.inputs.items()
        }
