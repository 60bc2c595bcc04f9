"""Scales are powers of two: what is computed in floats is then exact, too."""

from collections.abc import Callable

import numpy as np
import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.integer_layers import integer_layers

IMAGES = """
    x = input(1, 3, 6, 5, dtype="uint8")
    z = input(1, 4, 4, 3, dtype="uint8")
    sx = float32(0.5)
    zx = uint8(100)
    sw = float32(0.25)
    sy = float32(64.0)
    zy = uint8(120)
    w = levels(4, 3, 3, 3)
    b = float32(16.0, -24.0, 8.5, 0.125)
    low = float32(-512.0)
    high = float32(1024.0)
    s = random(4, 1, 1)
    f = dequantize_linear(x, sx, zx)
    g = dequantize_linear(z, sx, zx)
    k = dequantize_linear(w, sw)
    """
ROWS = """
    x = input(5, 8, dtype="uint8")
    t = input(2, 5, 8, dtype="uint8")
    sx = float32(0.5)
    zx = uint8(100)
    sw = float32(0.25)
    sy = float32(32.0)
    zy = uint8(120)
    w = levels(6, 8)
    v = levels(8, 6)
    b = float32(16.0, -24.0, 8.5, 0.125, 1.0, 2.0)
    f = dequantize_linear(x, sx, zx)
    g = dequantize_linear(t, sx, zx)
    k = dequantize_linear(w, sw)
    l = dequantize_linear(v, sw)
    """
REAL = "output_dtype='float32', x_zero_point=100"
CROSSED = "activation='clip', activation_params=(2.0, 1.0)"
SUMS = f"c/sums = quantized_conv(x, c/sums/weights, c/sums/scale, {REAL})"
ROUNDED = "y = quantize_linear(c, sy, zy); output(y)"


def graph(head: str, lines: str) -> str:
    return head + lines.replace("; ", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            f"c = conv(f, k, b, strides=(2, 1)); {ROUNDED}",
            "x, y/weights, y/scale, y/bias, high=255, low=0, strides=(2, 1), x_zero_point=100, "
            "y_zero_point=120",
        ),
        (
            "r = conv(f, k); c = relu(r); " + ROUNDED,
            "x, y/weights, y/scale, high=255, low=120, x_zero_point=100, y_zero_point=120",
        ),
        (
            "r = conv(f, k); q = clip(r, low, high); c = relu(q); " + ROUNDED,
            "x, y/weights, y/scale, high=136, low=120, x_zero_point=100, y_zero_point=120",
        ),
        (
            "c = fused_conv(f, k, b, g, activation='clip', activation_params=(0.0, 512.0)); "
            + ROUNDED,
            "x, y/weights, y/scale, y/bias, z, high=128, low=120, x_zero_point=100, "
            "y_zero_point=120, z_scale=0.0078125, z_zero_point=100",
        ),
        (
            "c = fused_conv(f, k, b, activation='leaky_relu', activation_params=(0.5,)); "
            + ROUNDED,
            "x, y/weights, y/scale, y/bias, , y/slope, high=255, low=0, x_zero_point=100, "
            "y_zero_point=120",
        ),
        (
            "c = fused_conv(f, k, _, _, s, activation='prelu'); " + ROUNDED,
            "x, y/weights, y/scale, , , y/slope, high=255, low=0, x_zero_point=100, "
            "y_zero_point=120",
        ),
        (
            "r = conv(f, k); c = prelu(r, s); " + ROUNDED,
            "x, y/weights, y/scale, , , y/slope, high=255, low=0, x_zero_point=100, "
            "y_zero_point=120",
        ),
    ],
)
def test_between_quantized_values(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(integer_layers, graph(IMAGES, lines), f"y = quantized_conv({after})")


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "c = conv(f, k, b); output(c)",
            f"c = quantized_conv(x, c/weights, c/scale, c/bias, {REAL})",
        ),
        (
            "c = fused_conv(f, k, b, g, activation='sigmoid'); output(c)",
            f"""
            g = dequantize_linear(z, sx, zx)
            c/sums = quantized_conv(x, c/sums/weights, c/sums/scale, c/sums/bias, {REAL})
            c/sum = add(c/sums, g)
            c = sigmoid(c/sum)
            """,
        ),
        (
            "c = fused_conv(f, k, activation='hard_sigmoid', activation_params=(0.25, 0.5)); "
            + ROUNDED,
            f"""
            {SUMS}
            c = hard_sigmoid(c/sums, alpha=0.25, beta=0.5)
            y = quantize_linear(c, sy, zy)
            """,
        ),
        (
            "c = fused_conv(f, k, activation='clip', activation_params=(0.0, 6.0)); output(c)",
            f"""
            {SUMS}
            c = clip(c/sums, c/bound, c/bound.1)
            """,
        ),
        (
            "c = fused_conv(f, k, _, _, s, activation='prelu'); output(c)",
            f"""
            {SUMS}
            c = prelu(c/sums, s)
            """,
        ),
    ],
)
def test_what_follows_in_floats(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(integer_layers, graph(IMAGES, lines), after)


@pytest.mark.parametrize(
    ("lines", "x", "bias"),
    [
        (f"c = gemm(f, k, b, transB=1); {ROUNDED}", "x", " y/bias,"),
        (f"c = gemm(f, l); {ROUNDED}", "x", ""),
        (f"m = matmul(g, l); c = add(b, m); {ROUNDED}", "t", " y/bias,"),
    ],
)
def test_matrices(becomes: Callable[..., Graph], lines: str, x: str, bias: str) -> None:
    ends = "high=255, low=0, x_zero_point=100, y_zero_point=120"
    after = f"""
        y/pixels = reshape({x}, y/shape)
        y/sums = quantized_conv(y/pixels, y/weights, y/scale,{bias} {ends})
        y = reshape(y/sums, y/shape.1)
        """
    becomes(integer_layers, graph(ROWS, lines), after)


def test_weights_and_scales_are_those_of_the_layer(text: Callable[[str], Graph]) -> None:
    before = text(graph(IMAGES, f"c = conv(f, k, b); {ROUNDED}"))
    after = integer_layers(before).constants
    np.testing.assert_array_equal(after["y/weights"], before.constants["w"])
    np.testing.assert_array_equal(after["y/scale"], np.full(4, 0.5 * 0.25 / 64, np.float32))
    np.testing.assert_array_equal(after["y/bias"], before.constants["b"] / np.float32(0.125))


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (IMAGES, f"c = conv(f, k, auto_pad='SAME_UPPER'); {ROUNDED}"),
        (IMAGES, f"e = exp(g); c = fused_conv(f, k, b, e); {ROUNDED}"),
        (IMAGES, f"o = relu(f); c = conv(o, k, b); {ROUNDED}"),
        (IMAGES, f"n = neg(k); c = conv(f, n, b); {ROUNDED}"),
        (IMAGES, f"c = fused_conv(f, k, {CROSSED}); {ROUNDED}"),
        (ROWS, f"c = gemm(f, l, b, alpha=2.0); {ROUNDED}"),
        (ROWS, f"c = gemm(f, l, b, beta=0.5); {ROUNDED}"),
    ],
)
def test_others_stay(stays: Callable[..., None], head: str, lines: str) -> None:
    stays(integer_layers, graph(head, lines))


def test_what_others_read_is_rounded_behind_it(becomes: Callable[..., Graph]) -> None:
    lines = "c = conv(f, k); r = relu(c); y = quantize_linear(r, sy, zy); output(y, r)"
    after = f"""
        c = quantized_conv(x, c/weights, c/scale, {REAL})
        r = relu(c)
        y = quantize_linear(r, sy, zy)
        """
    becomes(integer_layers, graph(IMAGES, lines), after)
