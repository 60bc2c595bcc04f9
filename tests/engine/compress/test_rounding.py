"""Weights on grids."""

from pathlib import Path

import numpy as np

from palmkit.engine import Graph, save
from palmkit.engine.compress.agreement import Agreement
from palmkit.engine.compress.in_turn import rounded_in_turn
from palmkit.engine.compress.layers import find_layers, moments
from palmkit.engine.compress.rounding import MOST_LEVEL, feedbacks, layer_steps, rounded
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
    return rounded(
        graph, layers, {"w": step}, feedbacks(moments(graph, layers, samples))
    ).constants["w"]


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


def two_layers() -> Graph:
    """A convolution, and a product that adds up what many of its outputs share."""
    draw = np.random.default_rng(2)
    constants: dict[str, Array] = {
        "w0": draw.normal(size=(24, 12, 1, 1)).astype(np.float32),
        "b0": draw.normal(size=24).astype(np.float32),
        "w1": draw.normal(0.3, 1, size=(16, 24, 1, 1)).astype(np.float32),
        "b1": draw.normal(size=16).astype(np.float32),
    }
    nodes = (
        Node("conv", ("x", "w0", "b0"), ("a",)),
        Node("relu", ("a",), ("b",)),
        Node("conv", ("b", "w1", "b1"), ("y",)),
    )
    inputs, outputs = {"x": Type("float32", (1, 12, 8, 8))}, {"y": Type("float32", (1, 16, 8, 8))}
    return Graph(inputs, outputs, nodes, constants)


def pictures(count: int, seed: int) -> list[dict[str, Array]]:
    """Inputs whose channels go together."""
    draw = np.random.default_rng(seed)
    mix = np.random.default_rng(3).normal(size=(12, 4))
    found = (np.einsum("cm,mhw->chw", mix, draw.normal(1, 1, (4, 8, 8))) for _ in range(count))
    return [{"x": each[None].astype(np.float32)} for each in found]


def test_layers_in_turn_make_good_what_those_before_lost() -> None:
    graph, seen, fresh = two_layers(), pictures(60, 4), pictures(20, 5)
    layers, steps = find_layers(graph), {"w0": 0.8, "w1": 0.8}
    told: list[float] = []
    in_turn = rounded_in_turn(graph, layers, steps, seen, lambda share, what: told.append(share))
    alone = rounded(graph, layers, steps, feedbacks(moments(graph, layers, seen)))
    agreement = Agreement(graph, fresh)
    assert 1 - agreement(in_turn) < 0.7 * (1 - agreement(alone))
    assert told == [0, 0.5]
    for name in ("w0", "w1"):
        for row in in_turn.constants[name].reshape(len(in_turn.constants[name]), -1):
            levels = row.astype(np.float64) / np.min(np.abs(row[row != 0]))
            assert np.allclose(levels, np.rint(levels), atol=1e-6)


def test_what_does_not_matter_is_rounded_further() -> None:
    graph = two_layers()
    found = pictures(20, 4)
    both = {**graph.outputs, "a": Type("float32", (1, 24, 8, 8))}
    graph = Graph(graph.inputs, both, graph.nodes, graph.constants)
    layers = find_layers(graph)
    feedback = feedbacks(moments(graph, layers, found))

    def steps(matters: dict[str, float] | None) -> dict[str, float]:
        return layer_steps(graph, layers, found, feedback, lambda share, what: None, matters)

    equal, last = steps(None), steps({"a": 0.0})
    assert last["w0"] / last["w1"] > 1.1 * equal["w0"] / equal["w1"]
