from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from palmkit.engine.ir import Graph, Type
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from palmkit.engine.passes.fold_batch_norm import fold_batch_norm


@pytest.mark.parametrize(
    "layer",
    [
        "conv(x, w)",
        "conv(x, w, b)",
        "conv(x, grouped, b, group=2)",
        "conv_transpose(x, t, b)",
        "conv_transpose(x, grouped_t, b, group=2)",
    ],
)
def test_batch_normalization_leaves(
    text: Callable[[str], Graph], same_numbers: Callable[..., None], layer: str
) -> None:
    graph = text(
        f"""
        x = input(1, 4, 6, 6)
        w = random(6, 4, 3, 3)
        grouped = random(6, 2, 3, 3)
        t = random(4, 6, 3, 3)
        grouped_t = random(4, 3, 3, 3)
        b = random(6)
        gamma = random(6)
        beta = random(6)
        mean = random(6)
        variance = float32([1.0, 2.0, 0.5, 3.0, 0.1, 1.5])
        a = {layer}
        y = batch_normalization(a, gamma, beta, mean, variance, epsilon=0.01)
        output(y)
        """
    )
    after = optimise(graph)
    assert [node.op for node in after.nodes] == [layer.partition("(")[0]]
    same_numbers(graph, after)


def test_alone_it_is_mul_and_add(becomes: Callable[..., Graph]) -> None:
    becomes(
        fold_batch_norm,
        """
        x = input(2, 3, 4)
        gamma = random(3)
        beta = random(3)
        mean = random(3)
        variance = float32([1.0, 2.0, 0.5])
        y = batch_normalization(x, gamma, beta, mean, variance)
        output(y)
        """,
        """
        y/product = mul(x, y/scale)
        y = add(y/product, y/shift)
        """,
    )


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_statistics_of_other_floats_stay(text: Callable[[str], Graph], dtype: str) -> None:
    """Networks of mixed precision have two float dtypes, of which mul and add take one only."""
    graph = text(
        """
        x = input(2, 3, 4)
        gamma = random(3)
        beta = random(3)
        mean = random(3)
        variance = float32([1.0, 2.0, 0.5])
        y = batch_normalization(x, gamma, beta, mean, variance)
        output(y)
        """
    )
    type = Type(dtype, (2, 3, 4))
    graph = replace(graph, inputs={"x": type}, outputs={"y": type})
    x = np.linspace(-2, 2, 24).reshape(2, 3, 4).astype(dtype)
    gamma, beta, mean, variance = (
        graph.constants[name].reshape(-1, 1) for name in ("gamma", "beta", "mean", "variance")
    )
    y = Model(graph, "cpu").run({"x": x})["y"]
    assert y.dtype == dtype
    wanted = (x - mean) / np.sqrt(variance + 1e-5) * gamma + beta
    np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-3)


def test_mul_and_div_by_channel(becomes: Callable[..., Graph]) -> None:
    becomes(
        fold_batch_norm,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        b = random(4)
        factor = random(1, 4, 1, 1)
        half = float32(2.0)
        a = conv(x, w, b)
        c = mul(factor, a)
        y = div(c, half)
        output(y)
        """,
        "y = conv(x, w/scaled/scaled, y/bias)",
    )


@pytest.mark.parametrize("attrs", ["", ", transB=1", ", alpha=0.5, beta=2.0"])
def test_gemm(becomes: Callable[..., Graph], attrs: str) -> None:
    graph = becomes(
        fold_batch_norm,
        f"""
        x = input(2, 4)
        w = random(4, 4)
        b = random(1, 4)
        factor = random(4)
        a = gemm(x, w, b{attrs})
        y = mul(a, factor)
        output(y)
        """,
        f"y = gemm(x, w/scaled, y/bias{attrs})".replace(", beta=2.0", ""),
    )
    assert graph.constants["y/bias"].shape == (4,)


@pytest.mark.parametrize(
    "factor", ["random(1, 1, 4, 4)", "random(1, 1, 1, 4)", "random(2, 1, 1, 1)"]
)
def test_other_factors_stay(stays: Callable[..., None], factor: str) -> None:
    stays(
        fold_batch_norm,
        f"""
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        factor = {factor}
        a = conv(x, w)
        y = mul(a, factor)
        output(y)
        """,
    )


def test_a_second_reader_stays(stays: Callable[..., None]) -> None:
    stays(
        fold_batch_norm,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        factor = float32(2.0)
        a = conv(x, w)
        y = mul(a, factor)
        output(y, a)
        """,
    )
