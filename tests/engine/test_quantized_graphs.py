"""Quantized graphs compute in integers: the native backend has numpy's bits, one step off at most
from what the float ops between the rounding give.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from palmkit.engine.backends import BACKENDS
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Graph
from palmkit.engine.passes import optimise
from tests.engine.quantized_graphs import Maker, Value

needs_native = pytest.mark.skipif(
    bool(BACKENDS["cpu"].missing()), reason="the native module is not built"
)
BORDERS = {"dequantize_linear", "quantize_linear"}


def square(channels: int) -> tuple[int, int, int, int]:
    return (1, channels, 9, 8)


def plain_conv(m: Maker) -> Value:
    return m.rounded(m.conv(m.input(*square(13)), 20, (3, 3), pads=(1, 1, 1, 1)), 1)


def strided_conv(m: Maker) -> Value:
    x = m.input(2, 3, 17, 15)
    return m.rounded(m.conv(x, 33, (3, 3), "relu", strides=(2, 2), auto_pad="SAME_UPPER"), 1, 1)


def depthwise(m: Maker) -> Value:
    return m.rounded(m.conv(m.input(*square(19)), 19, (3, 3), group=19, pads=(1, 1, 1, 1)), 1)


def grouped(m: Maker) -> Value:
    return m.rounded(m.conv(m.input(*square(12)), 8, (3, 2), group=4, dilations=(2, 1)), 1)


def residual(m: Maker) -> Value:
    x = m.input(*square(16))
    y = m.conv(x, 16, (1, 1))
    return m.rounded(Value(m.add("relu", m.add("add", y.name, x.name)), y.dims), 1, 1)


def sum_of_rounded(m: Maker) -> Value:
    x = m.input(*square(16))
    y = m.rounded(m.conv(x, 16, (1, 1)), 1)
    return m.rounded(Value(m.add("add", x.name, y.name), y.dims), 1.4)


def sum_of_convs(m: Maker) -> Value:
    x = m.input(*square(16))
    y, z = (m.rounded(m.conv(x, 24, (3, 3), "relu"), 1, 0.6) for _ in range(2))
    return m.rounded(Value(m.add("add", z.name, y.name), y.dims), 1.4)


def bent(m: Maker) -> Value:
    x = m.conv(m.input(*square(8)), 21, (1, 1))
    slope = m.constant(m.random.uniform(0, 0.5, (21, 1, 1)).astype(np.float32))
    x = m.rounded(Value(m.add("prelu", x.name, slope), x.dims), 1)
    return m.rounded(m.conv(x, 5, (1, 1), "leaky_relu"), 1)


def rounded_then_bent(m: Maker) -> Value:
    x = m.rounded(m.conv(m.input(*square(8)), 21, (3, 3)), 1)
    slope = m.constant(m.random.uniform(0, 0.5, (21, 1, 1)).astype(np.float32))
    x = m.rounded(Value(m.add("prelu", x.name, slope), x.dims), 0.8, 0.2)
    x = m.rounded(m.conv(x, 5, (1, 1)), 1)
    return m.rounded(Value(m.add("leaky_relu", x.name, alpha=0.2), x.dims), 0.8, 0.2)


def sum_of_fewer_channels_then_bent(m: Maker) -> Value:
    x = m.input(*square(13))
    y = m.rounded(m.conv(x, 21, (1, 1)), 1)
    padded = m.add("pad", x.name, m.constant(np.array([0, 0, 0, 0, 0, 8, 0, 0])))
    y = m.rounded(Value(m.add("add", padded, y.name), y.dims), 1.2)
    slope = m.constant(m.random.uniform(0, 0.5, (21, 1, 1)).astype(np.float32))
    return m.rounded(Value(m.add("prelu", y.name, slope), y.dims), 1.3, 0.2)


def difference(m: Maker) -> Value:
    x, y = m.input(*square(5)), m.input(*square(5))
    return m.rounded(Value(m.add("sub", x.name, y.name), x.dims), 1.4)


def gate(m: Maker) -> Value:
    x = m.input(1, 21, 6, 5)
    pooled = m.add("global_average_pool", x.name)
    mean = m.rounded(Value(pooled, (1, 21, 1, 1)), 0.4)
    less = m.rounded(m.conv(mean, 8, (1, 1), "relu"), 0.6, 0.5)
    more = m.rounded(m.conv(less, 21, (1, 1)), 0.8)
    gate = m.rounded(Value(m.add("hard_sigmoid", more.name), more.dims), 0.2, 0.5)
    return m.rounded(Value(m.add("mul", x.name, gate.name), x.dims), 0.6)


def activation(m: Maker) -> Value:
    y = m.rounded(m.conv(m.input(*square(8)), 8, (1, 1)), 1)
    return m.rounded(Value(m.add("hard_swish", y.name), y.dims), 0.7, 0.4)


def swish(m: Maker) -> Value:
    x = m.rounded(m.conv(m.input(*square(8)), 8, (1, 1)), 1)
    y = m.rounded(Value(m.add("sigmoid", x.name), x.dims), 0.2, 0.5)
    return m.rounded(Value(m.add("mul", x.name, y.name), x.dims), 0.7, 0.4)


def slopes(m: Maker) -> Value:
    x = m.input(*square(8))
    slope = m.constant(m.random.uniform(0, 0.5, (8, 1, 1)).astype(np.float32))
    return m.rounded(Value(m.add("prelu", x.name, slope), x.dims), 1)


def layer(m: Maker) -> Value:
    x = m.input(7, 40)
    bias = m.constant(m.random.normal(size=11).astype(np.float32))
    y = m.add("gemm", x.name, m.weights(11, 40), bias, transB=1)
    return m.rounded(Value(y, (7, 11)), 1)


def product(m: Maker) -> Value:
    x = m.input(2, 5, 40)
    y = m.add("matmul", x.name, m.weights(40, 12, axis=1))
    bias = m.constant(m.random.normal(size=12).astype(np.float32))
    return m.rounded(Value(m.add("add", y, bias), (2, 5, 12)), 1)


def average(m: Maker) -> Value:
    x = m.input(*square(10))
    attrs = {"kernel_shape": (3, 2), "strides": (2, 1), "pads": (1, 0, 1, 1)}
    y = m.add("average_pool", x.name, **attrs)
    return m.rounded(Value(y, m.dims_of(y)), 0.5)


def mean_without_axes(m: Maker) -> Value:
    x = m.input(2, 10, 7, 6)
    axes = m.constant(np.array([2, 3]))
    return m.rounded(Value(m.add("reduce_mean", x.name, axes, keepdims=0), (2, 10)), 0.3)


def joined(m: Maker) -> Value:
    x, y = m.input(*square(5)), m.rounded(m.conv(m.input(*square(8)), 7, (1, 1)), 1)
    return m.rounded(Value(m.add("concat", x.name, y.name, axis=1), square(12)), 1.2)


def enlarged(m: Maker) -> Value:
    x = m.input(1, 11, 5, 4)
    scales = m.constant(np.array([1, 1, 2, 3], np.float32))
    y = m.add("resize", x.name, "", scales, mode="linear")
    return m.rounded(Value(y, m.dims_of(y)), 1)


def moved(m: Maker) -> Value:
    x = m.input(*square(6))
    y = m.add("max_pool", x.name, kernel_shape=(2, 2), strides=(1, 2), pads=(1, 0, 0, 1))
    pads = m.constant(np.array([0, 0, 1, 0, 0, 0, 0, 2]))
    y = m.add("pad", y, pads)
    y = m.add("resize", y, "", m.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    y = m.add("space_to_depth", y, blocksize=2)
    y = m.add("reshape", y, m.constant(np.array([1, 6, -1])))
    return m.rounded(Value(y, m.dims_of(y)), 0.9)


def pooled_over_the_edge(m: Maker) -> Value:
    x = m.input(*square(6))
    y = m.add("max_pool", x.name, kernel_shape=(3, 3), strides=(2, 3), ceil_mode=1)
    return m.rounded(Value(y, m.dims_of(y)), 0.9)


CASES: dict[Callable[[Maker], Value], tuple[str, ...]] = {
    plain_conv: ("quantized_conv",),
    strided_conv: ("quantized_conv",),
    depthwise: ("quantized_conv",),
    grouped: ("quantized_conv",),
    residual: ("quantized_conv",),
    sum_of_rounded: ("quantized_conv",),
    sum_of_convs: ("quantized_conv",),
    bent: ("quantized_conv",),
    rounded_then_bent: ("quantized_conv",),
    sum_of_fewer_channels_then_bent: ("quantized_conv",),
    difference: ("quantized_add",),
    gate: ("quantized_average_pool", "quantized_conv", "lookup", "quantized_mul"),
    activation: ("quantized_conv", "lookup"),
    swish: ("quantized_conv", "lookup"),
    slopes: ("lookup",),
    layer: ("quantized_conv", "reshape"),
    product: ("quantized_conv", "reshape"),
    average: ("quantized_average_pool",),
    mean_without_axes: ("quantized_average_pool", "reshape"),
    joined: ("quantized_conv", "lookup", "concat"),
    enlarged: ("quantized_resize",),
    moved: ("max_pool", "pad", "resize", "space_to_depth", "reshape", "lookup"),
    pooled_over_the_edge: ("max_pool", "lookup"),
}
every_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
every_dtype = pytest.mark.parametrize("dtype", ["uint8", "int8"])


def integers(graph: Graph) -> Counter[str]:
    return Counter(node.op for node in graph.nodes if node.op not in BORDERS)


@every_dtype
@every_case
def test_nothing_is_left_of_the_float_ops(make: Callable[[Maker], Value], dtype: str) -> None:
    maker = Maker(3, dtype)
    graph = optimise(maker.graph(make(maker)))
    assert integers(graph).keys() == set(CASES[make])


@every_dtype
@every_case
def test_one_step_off_at_most(make: Callable[[Maker], Value], dtype: str) -> None:
    maker = Maker(4, dtype, border=dtype)
    graph = maker.graph(make(maker))
    assert next(iter(graph.outputs.values())).dtype == dtype
    inputs = maker.arrays()
    reference = BACKENDS["reference"]
    wanted = reference.compile(graph).run(inputs)
    got = reference.compile(optimise(graph)).run(inputs)
    for name, value in wanted.items():
        assert len(np.unique(value)) > 9
        steps = np.abs(got[name].astype(int) - value.astype(int))
        assert steps.max() <= 1
        assert np.mean(steps > 0) <= 0.02


@needs_native
@every_dtype
@every_case
@pytest.mark.parametrize("threads", [1, 2])
def test_native_bits_are_those_of_numpy(
    make: Callable[[Maker], Value], dtype: str, threads: int
) -> None:
    maker = Maker(5, dtype)
    graph = optimise(maker.graph(make(maker)))
    assert_same_bits(graph, maker, threads)


REAL = ("relu", "hard_swish", "leaky_relu", "")


@needs_native
@pytest.mark.parametrize("activation", REAL)
@pytest.mark.parametrize("kind", ["conv", "gemm", "residual"])
def test_a_layer_that_nobody_rounds_gives_floats(activation: str, kind: str) -> None:
    maker = Maker(6)
    x = maker.input(*square(12)) if kind != "gemm" else maker.input(5, 12)
    if kind == "gemm":
        y = Value(maker.add("gemm", x.name, maker.weights(9, 12), transB=1), (5, 9))
    else:
        y = maker.conv(x, 12, (1, 1))
        if kind == "residual":
            y = Value(maker.add("add", y.name, x.name), y.dims)
    y = Value(maker.add(activation, y.name), y.dims) if activation else y
    graph = maker.graph(y)
    better = optimise(graph)
    assert integers(better)["quantized_conv"] == 1
    inputs = maker.arrays()
    wanted = BACKENDS["reference"].compile(graph).run(inputs)[y.name]
    for backend in BACKENDS.values():
        if not backend.supports(better.nodes[0]):
            continue
        got = backend.compile(better).run(inputs)[y.name]
        # A bias has the steps of the products.
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-4)


def assert_same_bits(graph: Graph, maker: Maker, threads: int = 1) -> None:
    inputs = maker.arrays()
    wanted = BACKENDS["reference"].compile(graph).run(inputs)
    got = BACKENDS["cpu"].compile(graph, Options(threads)).run(inputs)
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name], value)
        assert len(np.unique(value)) > 1


def grow(m: Maker) -> Value:
    """A net of random ops, all of which compute in integers."""
    draw = m.random.integers
    x = m.input(int(draw(1, 3)), int(draw(1, 40)), int(draw(4, 14)), int(draw(4, 14)))
    for _ in range(int(draw(2, 8))):
        kind, (_, channels, height, width) = int(draw(0, 9)), x.dims
        if kind < 3:
            kernel = (int(draw(1, 1 + min(3, height))), int(draw(1, 1 + min(3, width))))
            strides = (int(draw(1, 3)), int(draw(1, 3)))
            pads = tuple(int(draw(0, k)) for k in kernel * 2)
            more = ((), ("relu",))[int(draw(0, 2))]
            by_depth = kind == 0
            y = m.conv(x, channels if by_depth else int(draw(1, 70)), kernel, *more,
                       strides=strides, pads=pads, group=channels if by_depth else 1)  # fmt: skip
            x = m.rounded(y, 1, 0.5 if more else 0)
        elif kind == 3:
            y = m.conv(x, channels, (1, 1))
            y = y if draw(0, 2) else m.rounded(y, 1)
            x = m.rounded(Value(m.add("add", y.name, x.name), x.dims), 1.4)
            if draw(0, 2):
                slope = m.constant(m.random.uniform(0, 1, (channels, 1, 1)).astype(np.float32))
                x = m.rounded(Value(m.add("prelu", x.name, slope), x.dims), 1.2)
        elif kind == 4:
            op = ("hard_swish", "sigmoid", "tanh", "relu")[int(draw(0, 4))]
            x = m.rounded(Value(m.add(op, x.name), x.dims), 0.7, 0.3)
        elif kind == 5 and min(height, width) > 2:
            op = ("max_pool", "average_pool")[int(draw(0, 2))]
            name = m.add(op, x.name, kernel_shape=(2, 3), strides=(1, 2), pads=(1, 1, 0, 1))
            x = m.rounded(Value(name, m.dims_of(name)), 0.9)
        elif kind == 6:
            y = m.rounded(m.conv(x, int(draw(1, 20)), (1, 1)), 1)
            joined = m.add("concat", x.name, y.name, axis=1)
            x = m.rounded(Value(joined, m.dims_of(joined)), 1)
        elif kind == 7 and height * width < 100:
            scales = m.constant(np.array([1, 1, 2, 2], np.float32))
            mode = ("linear", "nearest")[int(draw(0, 2))]
            name = m.add("resize", x.name, "", scales, mode=mode)
            x = m.rounded(Value(name, m.dims_of(name)), 1)
        else:
            pooled = m.rounded(Value(m.add("global_average_pool", x.name), (1,) * 4), 0.4)
            x = m.rounded(Value(m.add("mul", x.name, pooled.name), x.dims), 0.5, 0.1)
    return x


@needs_native
@pytest.mark.parametrize("seed", range(60))
def test_random_nets_have_the_same_bits(seed: int) -> None:
    maker = Maker(seed, ("uint8", "int8")[seed % 2])
    graph = optimise(maker.graph(grow(maker)))
    assert not integers(graph).keys() & {"conv", "fused_conv", "add", "mul", "average_pool"}
    assert_same_bits(graph, maker, 1 + seed % 2)
