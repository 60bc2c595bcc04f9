"""A narrowed graph is the graph in which nobody looks at the channels that are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from palmkit.engine.compress.channel_rules import channels_of
from palmkit.engine.compress.narrow import masked, narrow
from palmkit.engine.errors import ModelError
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise

Sample = Callable[..., dict[str, Array]]


def same(a: Graph, b: Graph, inputs: dict[str, Array], backend: str = "reference") -> None:
    first, second = (Model(graph, backend).run(inputs) for graph in (a, b))
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], rtol=1e-4, atol=1e-5)


def elements(graph: Graph) -> int:
    return sum(value.size for value in graph.constants.values())


@pytest.mark.parametrize("name", ["classifier", "everything"])
@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("fused", [False, True])
def test_narrowed_is_masked(
    name: str, backend: str, fused: bool, sample: Sample, request: pytest.FixtureRequest
) -> None:
    graph: Graph = request.getfixturevalue(name)
    if fused:
        graph = optimise(graph)
    channels = channels_of(graph)
    free = sorted(channels.free)
    assert len(free) > 20
    for seed in range(6):
        draw = np.random.default_rng(seed)
        gone = {root for root in free if draw.random() < 0.3}
        small, zeroed = narrow(channels, gone), masked(channels, gone)
        assert elements(small) < elements(graph) == elements(zeroed)
        assert small.outputs == graph.outputs
        inputs = sample(graph, seed)
        same(small, zeroed, inputs, backend)
        before = Model(graph, backend).run(inputs)
        after = Model(small, backend).run(inputs)
        assert any(np.abs(before[key] - after[key]).max() > 1e-3 for key in before)


def test_every_channel_alone(everything: Graph, sample: Sample) -> None:
    channels, inputs = channels_of(everything), sample(everything)
    for root in sorted(channels.free):
        same(narrow(channels, {root}), masked(channels, {root}), inputs)


def test_which_channels_are_free(everything: Graph) -> None:
    """All that ever stand between two layers; not the classes, nor what is padded or copied in."""
    channels = channels_of(everything)
    made = {channels.root(n) for s in channels.slots if s.role == "makes" for n in s.labels}
    outputs = {channels.root(n) for name in everything.outputs
               for n in channels.values[name].labels}  # fmt: skip
    assert channels.free == made - outputs


def test_a_residual_leaves_whole(classifier: Graph) -> None:
    channels = channels_of(classifier)
    first = classifier.nodes[0].outputs[0]
    joined = channels.values[classifier.nodes[6].outputs[0]]
    assert classifier.nodes[6].op == "relu"
    assert channels.roots(channels.values[first].labels).tolist() == (
        channels.roots(joined.labels).tolist()
    )
    small = narrow(channels, {channels.root(joined.labels[3])})
    shapes = [small.constants[n.inputs[1]].shape for n in small.nodes if n.op == "conv"]
    assert shapes[:4] == [(11, 3, 3, 3), (11, 1, 3, 3), (11, 11, 1, 1), (8, 11, 1, 1)]
    assert small.nodes[2].attrs["group"] == 11


def test_open_sizes(build: Any, sample: Sample) -> None:
    b = build()
    x = b.add("relu", b.conv("image", 3, 8, 3))
    x = b.add("relu", b.add("add", x, b.conv(x, 8, 8, 3, group=8)))
    x = b.conv(x, 8, 2)
    sizes = (1, 3, "height", "width")
    graph = b.graph(
        {"image": Type("float32", sizes)}, y=(x, Type("float32", (1, 2, "height", "width")))
    )
    channels = channels_of(graph)
    assert len(channels.free) == 8
    gone = {min(channels.free)}
    inputs = {"image": np.random.default_rng(0).standard_normal((1, 3, 7, 9)).astype(np.float32)}
    same(narrow(channels, gone), masked(channels, gone), inputs)


@pytest.mark.parametrize(
    "op,attrs",
    [("softmax", {"axis": 1}), ("depth_to_space", {"blocksize": 2}), ("lrn", {"size": 3})],
)
def test_what_is_not_understood_is_frozen(build: Any, op: str, attrs: dict[str, Any]) -> None:
    b = build()
    x = b.add(op, b.conv("image", 3, 8), **attrs)
    x = b.conv(x, 8 // 4 if op == "depth_to_space" else 8, 6)
    x = b.conv(b.add("relu", x), 6, 2)
    size = 16 if op == "depth_to_space" else 8
    graph = b.graph(
        {"image": Type("float32", (1, 3, 8, 8))}, y=(x, Type("float32", (1, 2, size, size)))
    )
    assert len(channels_of(graph).free) == 6


def test_what_has_to_stay(classifier: Graph) -> None:
    channels = channels_of(classifier)
    with pytest.raises(ModelError, match="have to stay"):
        narrow(channels, {channels.root(channels.values["logits"].labels[0])})
    with pytest.raises(ModelError, match="expected a channel to stay, got none"):
        narrow(channels, channels.free)
