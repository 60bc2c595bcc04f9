"""Weights on grids."""

from pathlib import Path

import numpy as np

from palmkit.engine import Graph, save
from palmkit.engine.compress.layers import find_layers, moments
from palmkit.engine.compress.rounding import MOST_LEVEL, rounded
from palmkit.engine.format.encodings import constants_of
from palmkit.engine.ir import Array, Node, Type


def one_layer() -> Graph:
    weight = np.random.default_rng(0).normal(size=(96, 64)).astype(np.float32)
    weight[3] *= 40
    nodes = (Node("gemm", ("x", "w"), ("y",), {"transB": 1}),)
    return Graph(
        {"x": Type("float32", (1, 64))}, {"y": Type("float32", (1, 96))}, nodes, {"w": weight}
    )


def weights_at(step: float) -> Array:
    graph = one_layer()
    draw = np.random.default_rng(1)
    samples = [{"x": draw.normal(size=(1, 64)).astype(np.float32)} for _ in range(80)]
    layers = find_layers(graph)
    return rounded(graph, layers, {"w": step}, moments(graph, layers, samples)).constants["w"]


def test_each_output_has_whole_multiples_of_its_own_step() -> None:
    weights = weights_at(0.5).astype(np.float64)
    sizes = np.sqrt(np.mean(one_layer().constants["w"] ** 2, axis=1))
    for row, size in zip(weights, sizes, strict=True):
        step = np.min(np.abs(row[row != 0]))
        levels = row / step
        assert np.array_equal(levels, np.rint(levels)) and np.abs(levels).max() <= MOST_LEVEL
        assert 0.4 * size < step < 0.65 * size


def test_no_zero_is_negative_so_levels_are_stored_as_int8(tmp_path: Path) -> None:
    weights = weights_at(0.5)
    zeros = weights[weights == 0]
    assert zeros.size > 500
    assert not np.signbit(zeros).any()
    graph = one_layer()
    path = tmp_path / "net.palm"
    save(graph.with_nodes(graph.nodes, {"w": weights}), path, weights="smallest", shapes=())
    (stored,) = constants_of(path.read_bytes())
    assert stored.stored == "float32 as quantized, coded"


def test_too_many_steps_leave_a_layer_as_it_is() -> None:
    assert np.array_equal(weights_at(0.001), one_layer().constants["w"])
