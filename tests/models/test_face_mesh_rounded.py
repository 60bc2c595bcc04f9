"""The face mesh's last layer, rounded by what it sees."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="the recipes need torch")

from palmkit.engine import Graph, Model
from palmkit.engine.compress.layers import find_layers
from palmkit.engine.compress.rounding import grid_of
from palmkit.engine.ir import Array, Node, Type
from palmkit.models.face_mesh.rounded import codes, round_last

SIZE, CODE, POINTS = 32, 12, 30


def mesh() -> Graph:
    """Means of the channels, a code of them, points of the code."""
    draw = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "encode": draw.normal(size=(CODE, SIZE * SIZE * 3)).astype(np.float32) / 255,
        "weight": draw.normal(size=(POINTS, CODE)).astype(np.float32),
        "bias": draw.normal(size=POINTS).astype(np.float32),
    }
    nodes = (
        Node("flatten", ("image",), ("flat",)),
        Node("gemm", ("flat", "encode"), ("code",), {"transB": 1}),
        Node("gemm", ("code", "weight", "bias"), ("points",), {"transB": 1}),
    )
    inputs = {"image": Type("float32", (1, SIZE, SIZE, 3))}
    return Graph(inputs, {"points": Type("float32", (1, POINTS))}, nodes, constants)


def test_codes_are_of_the_pictures_and_half_of_them_disturbed() -> None:
    graph = mesh()
    layer = find_layers(graph)[-1]
    draw = np.random.default_rng(1)
    pictures = [draw.random((SIZE, SIZE, 3), np.float32) for _ in range(6)]
    seen = codes(graph, layer, pictures)
    expected = np.stack([each.ravel() for each in pictures]) * 255 @ graph.constants["encode"].T
    assert seen.shape == (6, CODE)
    assert np.allclose(seen[:3], expected[:3], atol=1e-3)
    assert (np.abs(seen[3:] - expected[3:]).max(axis=1) > 1e-2).any()


def test_the_last_layer_is_on_its_grid_and_keeps_the_mean() -> None:
    graph = mesh()
    layer = find_layers(graph)[-1]
    seen = np.random.default_rng(2).normal(3, 1, size=(200, CODE))
    small = round_last(graph, layer, 0.4, seen)
    before, after = (
        seen @ each.constants["weight"].T + each.constants["bias"] for each in (graph, small)
    )
    assert np.abs(after - before).max() > 0
    assert np.allclose(after.mean(axis=0), before.mean(axis=0), atol=1e-4)
    units = grid_of(layer.as_groups(graph.constants["weight"]), 0.4)
    assert units is not None
    levels = small.constants["weight"].astype(np.float64) / units[0]
    assert np.array_equal(levels, np.rint(levels))
    image = np.full((1, SIZE, SIZE, 3), 9, np.float32)
    assert Model(small).run({"image": image})["points"].shape == (1, POINTS)
    with pytest.raises(ValueError, match="too narrow"):
        round_last(graph, layer, 1e-4, seen)
