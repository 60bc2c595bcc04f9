"""Training through levels: gradients straight through, and what is trained is what is stored."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palmkit.engine import Graph, Model
from palmkit.engine.compress.quantize import quantize
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Array, Node, Type
from palmkit.engine.ops import infer_types
from palmkit.engine.train import (
    Adam,
    Trainer,
    trainable,
    with_gradients,
    with_levels,
    with_trainable_weights,
)


def rounding(scale: Array, zero: Array, axis: int) -> Graph:
    """The sum of weighted rounded numbers."""
    attrs: dict[str, Any] = {"axis": axis}
    nodes = (
        Node("quantize_linear", ("x", "scale", "zero"), ("levels",), attrs),
        Node("dequantize_linear", ("levels", "scale", "zero"), ("y",), attrs),
        Node("mul", ("y", "weights"), ("product",)),
        Node("reduce_sum", ("product",), ("sum",), {"keepdims": 0}),
    )
    weights = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    constants = {"scale": scale, "zero": zero, "weights": weights}
    graph = Graph({"x": Type("float32", (2, 4))}, {}, nodes, constants)
    return replace(graph, outputs={"sum": infer_types(graph)["sum"]})


@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_go_straight_through_but_not_beyond_the_ends(axis: int) -> None:
    scale = np.array([0.5, 0.25, 2, 1][: 2 + 2 * axis], np.float32)
    zero = np.array([0, 10, -7, 3][: 2 + 2 * axis], np.int8)
    graph, names = with_gradients(rounding(scale, zero, axis), "sum", ["x"])
    x = np.array([[0.3, -1.2, 700, -400], [5, -3, 90, 131]], np.float32)
    found = Model(graph).run({"x": x})[names["x"]]
    along = (slice(None), None) if axis == 0 else (None, slice(None))
    levels = np.rint(x / scale[along]) + zero[along]
    inside = (levels >= -128) & (levels <= 127)
    assert 0 < inside.sum() < inside.size
    np.testing.assert_allclose(found, inside * graph.constants["weights"], rtol=1e-6)


def test_scales_that_are_computed_have_no_gradient() -> None:
    graph = rounding(np.ones(2, np.float32), np.zeros(2, np.int8), 0)
    scales = {**graph.inputs, "scale": Type("float32", (2,))}
    constants = {name: value for name, value in graph.constants.items() if name != "scale"}
    with pytest.raises(UnsupportedError, match="no gradient of dequantize_linear but"):
        with_gradients(replace(graph, inputs=scales, constants=constants), "sum", ["x"])


def classifier() -> Graph:
    """Three classes of small pictures by untrained weights: two convolutions, one with a clamp."""
    draw = np.random.default_rng(3)
    constants: dict[str, Array] = {
        "w1": (draw.normal(size=(8, 3, 3, 3)) * 0.3).astype(np.float32),
        "b1": np.zeros(8, np.float32),
        "w2": (draw.normal(size=(8, 8, 3, 3)) * 0.2).astype(np.float32),
        "b2": np.zeros(8, np.float32),
        "w3": (draw.normal(size=(8, 3)) * 0.3).astype(np.float32),
        "b3": np.zeros(3, np.float32),
    }
    nodes = (
        Node("conv", ("image", "w1", "b1"), ("c1",), {"strides": (2, 2)}),
        Node("relu", ("c1",), ("a1",)),
        Node("conv", ("a1", "w2", "b2"), ("c2",), {"pads": (1, 1, 1, 1)}),
        Node("add", ("c2", "a1"), ("joined",)),
        Node("relu", ("joined",), ("a2",)),
        Node("global_average_pool", ("a2",), ("pooled",)),
        Node("flatten", ("pooled",), ("flat",), {"axis": 1}),
        Node("gemm", ("flat", "w3", "b3"), ("logits",)),
    )
    graph = Graph({"image": Type("float32", ("n", 3, 9, 9))}, {}, nodes, constants)
    return replace(graph, outputs={"logits": Type("float32", ("n", 3))})


def batch(draw: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Stripes along, stripes across, and spots."""
    kinds = draw.integers(0, 3, count)
    images = draw.normal(size=(count, 3, 9, 9)) * 0.5
    lines = np.sign(np.sin(2.2 * np.arange(9)))
    patterns = np.stack([np.tile(lines, (9, 1)), np.tile(lines, (9, 1)).T, np.outer(lines, lines)])
    return (images + patterns[kinds][:, None]).astype(np.float32), np.eye(3, dtype=np.float32)[
        kinds
    ]


def test_what_is_trained_is_what_is_stored() -> None:
    draw = np.random.default_rng(0)
    samples = [{"image": batch(draw, 1)[0]} for _ in range(30)]
    quantized = quantize(classifier(), samples, method="min_max")
    plain = with_trainable_weights(quantized)
    images, targets = batch(draw, 200)

    def right(graph: Graph) -> float:
        logits = Model(graph).run({"image": images})["logits"]
        return float((logits.argmax(1) == targets.argmax(1)).mean())

    np.testing.assert_allclose(
        Model(plain).run({"image": images})["logits"],
        Model(quantized).run({"image": images})["logits"],
        atol=1e-5,
    )
    before = right(quantized)
    trainer = Trainer(plain, "logits", "cross_entropy", [*trainable(plain)], Adam(3e-3))
    assert len(trainer.parameters) == 6
    losses = [trainer.step({"image": x}, y) for x, y in (batch(draw, 64) for _ in range(150))]
    assert np.mean(losses[-10:]) < 0.5 * losses[0]
    trained = with_levels(trainer.graph, quantized)
    assert {node.op for node in trained.nodes} == {node.op for node in quantized.nodes}
    stored = [
        value for value in trained.constants.values() if value.dtype == np.int8 and value.ndim
    ]
    assert len(stored) == 3
    assert before < 0.7 < 0.9 < right(trained)
    # The integers give what training saw, but for biases between two levels.
    np.testing.assert_allclose(
        Model(trained).run({"image": images})["logits"],
        Model(trainer.graph).run({"image": images})["logits"],
        atol=0.05,
    )
