from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fuse_activation import fuse_activation

BEFORE = """
    x = input(1, 3, 6, 6)
    w = random(4, 3, 3, 3)
    b = random(4)
    low = float32(0.0)
    high = float32(6.0)
    slope = random(4, 1, 1)
    flat = random(1, 4, 1, 1)
    single = float32([0.25])
    wide = random(4, 4, 4)
    z = input(1, 4, 4, 4)
    a = {layer}
    y = {node}
    output(y)
    """


@pytest.mark.parametrize(
    ("node", "inputs", "attrs"),
    [
        ("relu(a)", "", "activation='clip', activation_params=(0.0, inf)"),
        ("clip(a, low, high)", "", "activation='clip', activation_params=(0.0, 6.0)"),
        ("clip(a, _, high)", "", "activation='clip', activation_params=(-inf, 6.0)"),
        ("prelu(a, slope)", ", , slope", "activation='prelu'"),
        ("prelu(a, flat)", ", , y/slope", "activation='prelu'"),
        ("prelu(a, single)", ", , y/slope", "activation='prelu'"),
        ("swish(a)", "", "activation='swish', activation_params=(1.0,)"),
        ("gelu(a)", "", "activation='gelu'"),
        ("mish(a)", "", "activation='mish'"),
        ("leaky_relu(a)", "", "activation='leaky_relu', activation_params=(0.01,)"),
        ("leaky_relu(a, alpha=0.2)", "", "activation='leaky_relu', activation_params=(0.2,)"),
        ("elu(a)", "", "activation='elu', activation_params=(1.0,)"),
        ("hard_swish(a)", "", "activation='hard_swish'"),
        ("hard_sigmoid(a)", "", "activation='hard_sigmoid', activation_params=(0.2, 0.5)"),
        ("sigmoid(a)", "", "activation='sigmoid'"),
        ("tanh(a)", "", "activation='tanh'"),
    ],
)
def test_each(becomes: Callable[..., Graph], node: str, inputs: str, attrs: str) -> None:
    becomes(
        fuse_activation,
        BEFORE.format(layer="conv(x, w, b, strides=(1, 1))", node=node),
        f"y = fused_conv(x, w, b{inputs}, {attrs}, strides=(1, 1))",
    )


@pytest.mark.parametrize(
    ("node", "slope", "activation"),
    [
        ("relu(a)", "", "activation='clip', activation_params=(0.0, inf)"),
        ("prelu(a, slope)", ", slope", "activation='prelu'"),
        ("prelu(a, single)", ", y/slope", "activation='prelu'"),
        ("sigmoid(a)", "", "activation='sigmoid'"),
    ],
)
def test_of_a_transposed_convolution(
    becomes: Callable[..., Graph], node: str, slope: str, activation: str
) -> None:
    between = ", " if slope else ""
    becomes(
        fuse_activation,
        f"""
        x = input(1, 6, 6, 6)
        w = random(6, 2, 3, 3)
        slope = random(4, 1, 1)
        single = float32([0.25])
        a = conv_transpose(x, w, group=2, strides=(2, 2))
        y = {node}
        output(y)
        """,
        f"y = fused_conv_transpose(x, w{between}{slope}, {activation}, group=2, strides=(2, 2))",
    )


def test_after_a_residual(becomes: Callable[..., Graph]) -> None:
    becomes(
        fuse_activation,
        BEFORE.format(layer="fused_conv(x, w, _, z)", node="prelu(a, slope)"),
        "y = fused_conv(x, w, , z, slope, activation='prelu')",
    )


@pytest.mark.parametrize(
    ("layer", "node"),
    [
        ("conv(x, w, b)", "prelu(a, wide)"),
        ("conv(x, w, b)", "gelu(a, approximate='tanh')"),
        ("conv(x, w, b)", "softplus(a)"),
        ("fused_conv(x, w, activation='sigmoid')", "relu(a)"),
    ],
)
def test_others_stay(stays: Callable[..., None], layer: str, node: str) -> None:
    stays(fuse_activation, BEFORE.format(layer=layer, node=node))


def test_a_second_reader_stays(stays: Callable[..., None]) -> None:
    stays(fuse_activation, BEFORE.format(layer="conv(x, w)", node="relu(a)") + "\n    output(y, a)")
