"""Each rule leaves the numbers as they are, and says what it has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from palmkit.engine.compress.cancel_concats import cancel_concats
from palmkit.engine.compress.low_rank import factorize
from palmkit.engine.compress.merge_layers import merge_chains, merge_parallel
from palmkit.engine.compress.pipeline import State
from palmkit.engine.compress.transform import NetworkTransform, transform
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.model import Model

IMAGE = {"image": Type("float32", (1, 6, 9, 8))}
Sample = Callable[..., dict[str, Array]]


def finish(b: Any, x: str, *dims: int) -> Graph:
    graph: Graph = b.graph(IMAGE, y=(x, Type("float32", (1, *dims))))
    return graph


def same(a: Graph, b: Graph, sample: Sample, tolerance: float = 1e-4) -> None:
    inputs = sample(a)
    first, second = Model(a, "reference").run(inputs), Model(b, "reference").run(inputs)
    assert a.outputs == b.outputs
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=tolerance, atol=tolerance)


def ops(graph: Graph) -> dict[str, int]:
    return dict(Counter(node.op for node in graph.nodes))


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
@pytest.mark.parametrize("group", [1, 2, 6])
@pytest.mark.parametrize("kernels", [(3, 1), (1, 5), (3, 3), (5, 3)])
def test_branches(
    build: Any, sample: Sample, kernels: tuple[int, int], group: int, strides: tuple[int, int]
) -> None:
    b = build()
    left, right = (b.conv("image", 6, 6, k, group=group, strides=strides) for k in kernels)
    size = (9, 8) if strides == (1, 1) else (5, 4)
    graph = finish(b, b.add("relu", b.add("add", left, right)), 6, *size)
    merged = merge_parallel(graph)
    assert ops(merged) == {"conv": 1, "relu": 1}
    same(graph, merged, sample)


@pytest.mark.parametrize("group", [1, 6])
def test_repvgg(build: Any, sample: Sample, group: int) -> None:
    """Three branches: 3x3, 1x1, and the picture itself."""
    b = build()
    x = b.add("relu", "image")
    y = b.add("add", b.conv(x, 6, 6, 3, group=group), b.conv(x, 6, 6, 1, group=group))
    graph = finish(b, b.add("add", x, y), 6, 9, 8)
    merged = merge_parallel(graph)
    assert ops(merged) == {"relu": 1, "conv": 1}
    same(graph, merged, sample)


@pytest.mark.parametrize(
    "left,right",
    [
        ({"kernel": 3}, {"kernel": 3, "dilations": (2, 2), "pads": (2, 2, 2, 2)}),
        ({"kernel": 3, "group": 2}, {"kernel": 3}),
    ],
)
def test_branches_that_stay(build: Any, left: dict[str, Any], right: dict[str, Any]) -> None:
    b = build()
    made: list[str] = []
    for given in (left, right):
        kernel, pads = given["kernel"], given.get("pads", (given["kernel"] // 2,) * 4)
        attrs = {key: value for key, value in given.items() if key not in ("kernel", "pads")}
        weight = b.weights(6, 6 // given.get("group", 1), kernel, kernel)
        made.append(b.add("conv", "image", weight, b.weights(6), pads=pads, **attrs))
    graph = finish(b, b.add("add", *made), 6, 9, 8)
    assert merge_parallel(graph) is graph


def test_a_shifted_branch(build: Any, sample: Sample) -> None:
    """A 1x1 over a picture padded to one side lies to the side of the 3x3's middle."""
    b = build()
    large = b.add("conv", "image", b.weights(6, 6, 3, 3), pads=(1, 2, 1, 0))
    small = b.add("conv", "image", b.weights(6, 6, 1, 1), b.weights(6))
    graph = finish(b, b.add("add", large, small), 6, 9, 8)
    merged = merge_parallel(graph)
    assert ops(merged) == {"conv": 1}
    same(graph, merged, sample)


def test_a_branch_that_is_read_stays(build: Any) -> None:
    b = build()
    left, right = b.conv("image", 6, 6, 3), b.conv("image", 6, 6)
    graph = finish(b, b.add("concat", b.add("add", left, right), left, axis=1), 12, 9, 8)
    assert merge_parallel(graph) is graph


def test_chains(build: Any, sample: Sample) -> None:
    b = build()
    x = b.conv(b.conv("image", 6, 16, 3, strides=(2, 2)), 16, 4)
    x = b.conv(b.add("relu", x), 4, 10)
    # No bias in the middle: zeros beyond the border are zeros of the picture.
    thin = b.add("conv", x, b.weights(12, 10, 1, 1))
    graph = finish(b, b.conv(thin, 12, 3, 3), 3, 5, 4)
    merged = merge_chains(graph)
    assert ops(merged) == {"conv": 3, "relu": 1}
    same(graph, merged, sample)


def test_chains_that_stay(build: Any) -> None:
    """A bias under a padded window; more work as one; an activation between."""
    b = build()
    biased = b.conv(b.conv("image", 6, 6), 6, 3, 3)
    wide = b.conv(b.conv(b.add("relu", biased), 3, 2), 2, 64)
    graph = finish(b, b.conv(b.add("relu", wide), 64, 3), 3, 9, 8)
    assert merge_chains(graph) is graph


@pytest.mark.parametrize("op", ["conv", "gemm", "gemm turned", "matmul"])
def test_low_rank(build: Any, sample: Sample, op: str) -> None:
    b = build()
    draw = np.random.default_rng(3)
    matrix = (draw.standard_normal((32, 3)) @ draw.standard_normal((3, 54))).astype(np.float32)
    if op == "conv":
        weight = b.constant(matrix.reshape(32, 6, 3, 3))
        x = b.add("conv", "image", weight, b.weights(32), pads=(1, 1, 1, 1), strides=(2, 2))
        graph = finish(b, x, 32, 5, 4)
    else:
        x = b.conv("image", 6, 6, 3, strides=(3, 3))
        x = b.add("reshape", x, b.constant(np.array([1, 54])))
        turned = op == "gemm turned"
        weight = b.constant(matrix if turned else np.ascontiguousarray(matrix.T))
        more = (b.weights(32),) if op != "matmul" else ()
        attrs = {"transB": 1} if turned else {}
        graph = finish(b, b.add(op.split()[0], x, weight, *more, **attrs), 32)
    small = factorize(graph)
    assert sum(v.size for v in small.constants.values()) < 0.5 * sum(
        v.size for v in graph.constants.values()
    )
    same(graph, small, sample, 1e-3)


def test_low_rank_keeps_its_error(build: Any) -> None:
    b = build()
    draw = np.random.default_rng(3)
    noisy = draw.standard_normal((40, 4)) @ draw.standard_normal((4, 40))
    noisy += 0.1 * draw.standard_normal((40, 40))
    x = b.add("conv", b.conv("image", 6, 40), b.constant(noisy.astype(np.float32)[..., None, None]))
    graph = finish(b, x, 40, 9, 8)
    assert factorize(graph) is graph
    small = factorize(graph, 0.1)
    wide, narrow = (small.constants[small.nodes[at].inputs[1]] for at in (-1, -2))
    product = wide.reshape(40, -1) @ narrow.reshape(-1, 40)
    assert wide.shape[1] < 12
    assert 0.02 < np.linalg.norm(product - noisy) / np.linalg.norm(noisy) <= 0.1


def test_concats(build: Any, sample: Sample) -> None:
    b = build()
    sizes = b.constant(np.array([2, 4]))
    parts = b.add("split", b.add("relu", "image"), sizes, outputs=2, axis=1)
    x = b.add("concat", *parts, axis=-3)
    inner = b.add("concat", b.conv(x, 6, 3), b.conv(x, 6, 2), axis=1)
    outer = b.add("concat", inner, b.conv(x, 6, 4), axis=1)
    cuts = b.constant(np.array([3, 2, 4]))
    pieces = b.add("split", outer, cuts, outputs=3, axis=1)
    y = b.add("concat", *(b.add("sigmoid", piece) for piece in reversed(pieces)), axis=1)
    graph = finish(b, y, 9, 9, 8)
    small, findings = transform(graph)
    assert ops(small) == {"relu": 1, "conv": 3, "sigmoid": 3, "concat": 1}
    assert "concat and split" in [finding.what for finding in findings]
    same(graph, small, sample)


def test_other_cuts_stay(build: Any) -> None:
    b = build()
    joined = b.add("concat", b.conv("image", 6, 3), b.conv("image", 6, 3), axis=1)
    parts = b.add("split", joined, b.constant(np.array([2, 4])), outputs=2, axis=1)
    graph = finish(b, b.add("concat", parts[1], parts[0], axis=1), 6, 9, 8)
    assert cancel_concats(graph) is graph


def test_everything_at_once(build: Any, sample: Sample) -> None:
    """A block as it was trained: normalised branches, and the block as it is used."""
    b = build()

    def normalised(x: str) -> str:
        values = [b.weights(6), b.weights(6), b.weights(6)]
        spread = b.constant(b.draw.random(6).astype(np.float32) + 0.5)
        return str(b.add("batch_normalization", x, *values, spread))

    x = "image"
    for _ in range(2):
        wide, thin = (b.add("conv", x, b.weights(6, 6, k, k), pads=(k // 2,) * 4) for k in (3, 1))
        sum_ = b.add("add", normalised(wide), normalised(thin))
        x = b.add("relu", b.add("add", sum_, x) if x != "image" else sum_)
    graph = finish(b, x, 6, 9, 8)
    small, findings = transform(graph)
    assert ops(small) == {"conv": 2, "relu": 2}
    same(graph, small, sample, 1e-3)
    lines = [str(finding) for finding in findings]
    assert any("parallel branches" in line and "multiply-adds" in line for line in lines)
    nodes = sum(finding.nodes[1] - finding.nodes[0] for finding in findings)
    assert nodes == len(small.nodes) - len(graph.nodes)
    assert transform(small) == (small, [])


def test_graphs_of_others(classifier: Graph, everything: Graph, sample: Sample) -> None:
    for graph in (classifier, everything):
        small, _ = transform(graph)
        same(graph, small, sample, 1e-3)


def test_weights_that_are_not_finite(build: Any) -> None:
    b = build()
    weight = np.zeros((6, 6, 1, 1), np.float32)
    weight[0, 0] = np.nan
    x = b.add("conv", b.conv("image", 6, 6), b.constant(weight))
    graph = finish(b, b.add("add", x, b.conv("image", 6, 6, 3)), 6, 9, 8)
    assert merge_parallel(graph) is graph and merge_chains(graph) is graph
    assert factorize(graph, 0.5) is not graph
    assert np.isnan(factorize(graph, 0.5).constants["c2"]).any()


def test_step(build: Any, sample: Sample) -> None:
    b = build()
    draw = np.random.default_rng(3)
    matrix = draw.standard_normal((48, 4)) @ draw.standard_normal((4, 6 * 9))
    matrix += 0.05 * draw.standard_normal(matrix.shape)
    weight = b.constant(matrix.astype(np.float32).reshape(48, 6, 3, 3) / 10)
    x = b.add("relu", b.add("conv", "image", weight, b.weights(48), pads=(1, 1, 1, 1)))
    graph = finish(b, b.conv(x, 48, 2), 2, 9, 8)
    samples = [sample(graph, seed) for seed in range(4)]
    teacher = Model(graph)

    def evaluate(other: Graph) -> float:
        model = Model(other)
        off = [model.run(each)["y"] - teacher.run(each)["y"] for each in samples]
        return -float(np.square(off).mean())

    state = State(graph, graph, samples, evaluate, 0.0, 0.0, floor=-0.5)
    after = NetworkTransform(steps=20).apply(state)
    assert state.allows(after.graph) and ops(after.graph)["conv"] == 3
    assert "low rank" in after.notes[-1]
    kept = NetworkTransform(steps=0).apply(replace(state, floor=0.1))
    assert kept.graph is graph
