"""Layers with constant weights, and the statistics of their inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from palmkit.engine.errors import CompressionError
from palmkit.engine.ir import UNKNOWN, Array, Graph, Node
from palmkit.engine.model import Model
from palmkit.engine.ops import traits_of
from palmkit.engine.ops.traits import Layer as Kind
from palmkit.engine.passes.weights import (
    groups_of,
    has_rows_of_outputs,
    kind_of,
    reads_columns,
)

_FEWEST = 64
# Rows of inputs that are used of one sample.
_MOST_ROWS = 512
# Rows that are gathered before they are multiplied.
AT_ONCE = 512


@dataclass(frozen=True)
class Layer:
    """A node whose input 1 is constant weights.

    groups: number of groups of a convolution.
    """

    node: Node
    weight: str
    groups: int

    def as_groups(self, weight: Array) -> Array:
        """Return float64[groups, outputs, k]: each output's weights, in the order of `moments`."""
        if kind_of(self.node) is Kind.TRANSPOSED:
            cin, cout = weight.shape[:2]
            each = weight.reshape(self.groups, cin // self.groups, cout, -1)
            turned = each.transpose(0, 2, 3, 1)
            return turned.reshape(self.groups, -1, cin // self.groups).astype(np.float64)
        if kind_of(self.node) is Kind.CONVOLUTION:
            rows = weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
            return rows.astype(np.float64)
        rows = weight if has_rows_of_outputs(self.node) else weight.T
        return rows[None].astype(np.float64)

    def from_groups(self, rows: Array, shape: tuple[int, ...]) -> Array:
        """Return the weights of `as_groups` in their own shape."""
        if kind_of(self.node) is Kind.TRANSPOSED:
            cin, cout = shape[:2]
            back = rows.reshape(self.groups, cout, -1, cin // self.groups).transpose(0, 3, 1, 2)
            return back.reshape(shape)
        if kind_of(self.node) is Kind.CONVOLUTION:
            return rows.reshape(shape)
        matrix: Array = rows[0]
        return matrix if has_rows_of_outputs(self.node) else matrix.T


def _is_weighted(node: Node) -> bool:
    """Return whether it is a layer; transposed convolutions with an activation are not."""
    kind, is_fused = kind_of(node), traits_of(node.op).is_fused
    return kind is not None and not (kind is Kind.TRANSPOSED and is_fused)


def check_weights(graph: Graph) -> None:
    """Raise CompressionError if a constant has a NaN, or a layer's weights an infinity."""
    weights = {node.inputs[1] for node in graph.nodes if _is_weighted(node)}
    for name, value in graph.constants.items():
        if value.dtype.kind == "f":
            bad = ~np.isfinite(value) if name in weights else np.isnan(value)
            if bad.any():
                raise CompressionError(
                    f"weights {name}: expected finite numbers, got {int(bad.sum())} others "
                    f"among {value.size}"
                )


def find_layers(graph: Graph) -> list[Layer]:
    """Return convolutions and matrix products whose constant float32 weights have one reader."""
    readers: dict[str, int] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers[name] = readers.get(name, 0) + 1
    found: list[Layer] = []
    for node in graph.nodes:
        if not _is_weighted(node):
            continue
        name = node.inputs[1]
        weight = graph.constants.get(name)
        if weight is None or weight.dtype != np.float32 or weight.size < _FEWEST:
            continue
        is_matrix = kind_of(node) is Kind.MATRIX
        if readers[name] > 1 or (is_matrix and (weight.ndim != 2 or reads_columns(node))):
            continue
        if not np.isfinite(weight).all():
            raise CompressionError(f"weights {name}: expected finite numbers")
        found.append(Layer(node, name, groups_of(node)))
    return found


def moments(
    graph: Graph, layers: Sequence[Layer], samples: Sequence[Mapping[str, Array]]
) -> dict[str, Array]:
    """Return for each weight float64[groups, k, k]: the mean of x x^T over its inputs x.

    For transposed convolutions, and for kernels and strides that are not plain, it is the unit
    matrix.
    """
    names = list(dict.fromkeys(layer.node.inputs[0] for layer in layers))
    inside = [name for name in names if name not in graph.inputs]
    model = Model(replace(graph, outputs=dict.fromkeys(inside, UNKNOWN)))
    sums: dict[str, Array] = {}
    kept: dict[str, list[Array]] = {layer.weight: [] for layer in layers}
    rng = np.random.default_rng(0)
    for number, sample in enumerate(samples, 1):
        values = {**sample, **(model.run(sample) if inside else {})}
        for layer in layers:
            weight = graph.constants[layer.weight]
            rows = input_rows(layer, weight, values[layer.node.inputs[0]], rng)
            some = kept[layer.weight]
            some.append(rows / np.sqrt(rows.shape[1] * len(samples)))
            if number == len(samples) or sum(each.shape[1] for each in some) >= AT_ONCE:
                gathered = np.concatenate(some, axis=1)
                product = np.matmul(gathered.transpose(0, 2, 1), gathered)
                sums[layer.weight] = sums.get(layer.weight, 0.0) + product
                some.clear()
    return sums


def input_rows(layer: Layer, weight: Array, x: Array, rng: np.random.Generator) -> Array:
    """Return float64[groups, n, k]: some of the vectors that an output's weights multiply.

    x: a value of the layer's input 0.
    """
    if kind_of(layer.node) is Kind.MATRIX:
        flat = x.reshape(-1, x.shape[-1])
        return _some(flat, rng)[None].astype(np.float64)
    groups = layer.groups
    channels = x.shape[1] // groups
    if kind_of(layer.node) is Kind.TRANSPOSED:
        flat = np.moveaxis(x, 1, -1).reshape(-1, x.shape[1])
        split = _some(flat, rng).reshape(-1, groups, channels)
        return split.transpose(1, 0, 2).astype(np.float64)
    if x.ndim != 4:
        return np.eye(channels * int(np.prod(weight.shape[2:])))[None].repeat(groups, 0)
    height, width = weight.shape[2:]
    rates = layer.node.integers("dilations") or (1, 1)
    padded = np.pad(x, ((0, 0), (0, 0), (height // 2,) * 2, (width // 2,) * 2))
    most_y = padded.shape[2] - (height - 1) * rates[0]
    most_x = padded.shape[3] - (width - 1) * rates[1]
    if most_y < 1 or most_x < 1:
        return np.eye(channels * height * width)[None].repeat(groups, 0)
    places = most_y * most_x
    chosen = rng.permutation(places)[:_MOST_ROWS]
    ys, xs = chosen // most_x, chosen % most_x
    patches = [
        padded[0][:, ys + dy * rates[0], xs + dx * rates[1]]
        for dy in range(height)
        for dx in range(width)
    ]
    # [kernel, channels, n] to [groups, n, channels of the group * kernel]
    stacked = np.stack(patches).reshape(height * width, groups, channels, -1)
    return stacked.transpose(1, 3, 2, 0).reshape(groups, len(chosen), -1).astype(np.float64)


def _some(rows: Array, rng: np.random.Generator) -> Array:
    if len(rows) <= _MOST_ROWS:
        return rows
    return rows[rng.choice(len(rows), _MOST_ROWS, replace=False)]
