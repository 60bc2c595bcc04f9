"""Scales are powers of two: what is computed in floats is then exact, too."""

from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.integer_residuals import integer_residuals, integer_slopes

HEAD = """
    x = input(1, 3, 6, 5, dtype="uint8")
    z = input(1, 4, 4, 3, dtype="uint8")
    n = input(1, 2, 4, 3, dtype="uint8")
    w = levels(4, 3, 3, 3)
    u = levels(4, 3, 3, 3)
    scale = float32(0.0009765625, 0.001953125, 0.00390625, 0.0078125)
    behind = int64(0, 0, 0, 0, 0, 2, 0, 0)
    before = int64(0, 2, 0, 0, 0, 0, 0, 0)
    zero = uint8(20)
    other = uint8(21)
    sx = float32(0.5)
    zx = uint8(110)
    sy = float32(0.25)
    zy = uint8(64)
    s = random(4, 1, 1)
    q = quantized_conv(x, w, scale, x_zero_point=100, y_zero_point=110, low=5)
    r = quantized_conv(x, u, scale, x_zero_point=100, y_zero_point=90)
    f = dequantize_linear(q, sx, zx)
    """
SCALES = "a_scale=0.5, b_scale=0.25"
ADD = f"{SCALES}, a_zero_point=110, b_zero_point=20, y_zero_point=64"
Q = "q = quantized_conv(x, w, scale, low=5, x_zero_point=100, y_zero_point=110)\n"
ROUNDED = "y = quantize_linear(c, sy, zy); output(y)"


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            f"y = quantized_add(q, z, {ADD}, high=200); output(y)",
            "y = quantized_conv(x, w, scale, , z, high=200, inner_high=255, inner_low=5, "
            "inner_scale=0.5, inner_zero_point=110, low=0, x_zero_point=100, y_zero_point=64, "
            "z_scale=0.25, z_zero_point=20)",
        ),
        (
            f"y = quantized_add(z, q, {SCALES}, a_zero_point=20, b_zero_point=110, "
            "y_zero_point=64); output(y)",
            "y = quantized_conv(x, w, scale, , z, high=255, inner_high=255, inner_low=5, "
            "inner_scale=0.25, inner_zero_point=110, low=0, x_zero_point=100, y_zero_point=64, "
            "z_scale=0.5, z_zero_point=20)",
        ),
        (
            f"y = quantized_add(q, r, {SCALES}, a_zero_point=110, b_zero_point=90, "
            "y_zero_point=64); output(y)",
            f"{Q}y = quantized_conv(x, u, scale, , q, high=255, inner_high=255, inner_low=0, "
            "inner_scale=0.25, inner_zero_point=90, low=0, x_zero_point=100, y_zero_point=64, "
            "z_scale=0.5, z_zero_point=110)",
        ),
        (
            f"p = pad(n, behind, zero); y = quantized_add(q, p, {ADD}); output(y)",
            "y = quantized_conv(x, w, scale, , n, high=255, inner_high=255, inner_low=5, "
            "inner_scale=0.5, inner_zero_point=110, low=0, x_zero_point=100, y_zero_point=64, "
            "z_scale=0.25, z_zero_point=20)",
        ),
    ],
)
def test_sums(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(integer_residuals, graph(lines), after)


@pytest.mark.parametrize("padded", ["pad(n, before, zero)", "pad(n, behind, other)"])
def test_a_pad_of_something_else_stays(becomes: Callable[..., Graph], padded: str) -> None:
    after = (
        f"p = {padded}\n"
        "y = quantized_conv(x, w, scale, , p, high=255, inner_high=255, inner_low=5, "
        "inner_scale=0.5, inner_zero_point=110, low=0, x_zero_point=100, y_zero_point=64, "
        "z_scale=0.25, z_zero_point=20)"
    )
    becomes(
        integer_residuals, graph(f"p = {padded}; y = quantized_add(q, p, {ADD}); output(y)"), after
    )


@pytest.mark.parametrize(
    "lines",
    [
        f"y = quantized_add(q, q, {ADD}); output(y)",
        f"y = quantized_add(q, z, {ADD}); output(y, q)",
        f"y = quantized_add(z, z, {ADD}); output(y)",
    ],
)
def test_other_sums_stay(text: Callable[[str], Graph], lines: str) -> None:
    ops = [node.op for node in integer_residuals(text(graph(lines))).nodes]
    assert ops.count("quantized_add") == 1


@pytest.mark.parametrize(
    ("lines", "low"),
    [
        (f"c = leaky_relu(f, alpha=0.5); {ROUNDED}", 0),
        (f"c = prelu(f, s); {ROUNDED}", 0),
        (f"d = prelu(f, s); c = relu(d); {ROUNDED}", 64),
    ],
)
def test_slopes(becomes: Callable[..., Graph], lines: str, low: int) -> None:
    after = (
        f"y = quantized_conv(x, w, scale, , , y/slope, high=255, low={low}, sum_high=255, "
        "sum_low=5, sum_scale=2.0, sum_zero_point=110, x_zero_point=100, y_zero_point=64)"
    )
    becomes(integer_slopes, graph(lines), after)


def test_the_slope_is_one_a_channel(text: Callable[[str], Graph]) -> None:
    after = integer_slopes(text(graph(f"c = leaky_relu(f); {ROUNDED}")))
    assert after.constants["y/slope"].tolist() == pytest.approx([0.01] * 4)


@pytest.mark.parametrize(
    "lines",
    [
        f"c = elu(f, alpha=0.5); {ROUNDED}",
        "c = leaky_relu(f, alpha=0.5); y = quantize_linear(c, sy, zy); output(y, f)",
        "c = leaky_relu(f, alpha=0.5); y = quantize_linear(c, sy, zy); output(y, c)",
        f"g = dequantize_linear(z, sx, zx); c = leaky_relu(g); {ROUNDED}",
    ],
)
def test_others_stay(text: Callable[[str], Graph], lines: str) -> None:
    after = integer_slopes(text(graph(lines)))
    assert "quantize_linear" in [node.op for node in after.nodes]
