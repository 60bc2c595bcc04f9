"""Scales are powers of two: what is computed in floats is then exact, too."""

from collections.abc import Callable

import numpy as np
import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.integer_elements import integer_elements, integer_sums

HEAD = """
    x = input(1, 4, 3, 5, dtype="uint8")
    z = input(1, 4, 3, 5, dtype="uint8")
    sx = float32(0.5)
    zx = uint8(100)
    sy = float32(2.0)
    zy = uint8(120)
    sm = float32(64.0)
    fine = float32(0.0078125)
    one = float32(1.0)
    low = float32(-40.0)
    high = float32(80.0)
    axes = int64(2, 3)
    channels = int64(1)
    s = random(4, 1, 1)
    sizes = int64(1, 4, 6, 10)
    f = dequantize_linear(x, sx, zx)
    g = dequantize_linear(z, sx, zx)
    h = dequantize_linear(z, sy, zy)
    """
ROUNDED = "y = quantize_linear(c, sy, zy); output(y)"
FULL = "high=255, low=0"


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            f"c = add(f, g); {ROUNDED}",
            f"a_scale=0.25, a_zero_point=100, b_scale=0.25, b_zero_point=100, {FULL}",
        ),
        (
            f"d = sub(f, h); c = relu(d); {ROUNDED}",
            "a_scale=0.25, a_zero_point=100, b_scale=-1.0, b_zero_point=120, high=255, low=120",
        ),
    ],
)
def test_sums(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(integer_sums, graph(lines), f"y = quantized_add(x, z, {after}, y_zero_point=120)")


@pytest.mark.parametrize(
    "lines",
    [
        f"c = add(f, one); {ROUNDED}",
        f"c = mul(f, g); {ROUNDED}",
        "c = add(f, g); y = quantize_linear(c, sy, zy); output(y, c)",
    ],
)
def test_no_sums_of_quantized_values_stay(stays: Callable[..., None], lines: str) -> None:
    stays(integer_sums, graph(lines))


@pytest.mark.parametrize(
    "lines",
    [
        f"c = hard_swish(f); {ROUNDED}",
        f"d = add(one, f); c = abs(d); {ROUNDED}",
        f"c = mul(f, one); {ROUNDED}",
        f"c = prelu(f, s); {ROUNDED}",
        "c = sigmoid(f); y = quantize_linear(c, fine, zx); output(y)",
    ],
)
def test_functions_of_one_value_are_a_table(becomes: Callable[..., Graph], lines: str) -> None:
    becomes(integer_elements, graph(lines), "y = lookup(x, y/table)")


def test_the_table_has_a_row_a_channel_where_they_differ(text: Callable[[str], Graph]) -> None:
    by_channel = integer_elements(text(graph(f"c = prelu(f, s); {ROUNDED}")))
    alike = integer_elements(text(graph(f"c = abs(f); {ROUNDED}")))
    assert by_channel.constants["y/table"].shape == (4, 256)
    assert alike.constants["y/table"].shape == (256,)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "d = mul(f, g); c = clip(d, low, high); y = quantize_linear(c, sm, zy); output(y)",
            "y = quantized_mul(x, z, a_zero_point=100, b_zero_point=100, high=121, low=119, "
            "scale=0.00390625, y_zero_point=120)",
        ),
        (
            f"c = average_pool(f, kernel_shape=(2, 2), strides=(2, 2)); {ROUNDED}",
            f"y = quantized_average_pool(x, {FULL.replace(' low', ' kernel_shape=(2, 2), low')}, "
            "scale=0.25, strides=(2, 2), x_zero_point=100, y_zero_point=120)",
        ),
        (
            f"c = global_average_pool(f); {ROUNDED}",
            f"y = quantized_average_pool(x, {FULL.replace(' low', ' kernel_shape=(3, 5), low')}, "
            "scale=0.25, x_zero_point=100, y_zero_point=120)",
        ),
        (
            f"c = reduce_mean(f, axes, keepdims=0); {ROUNDED}",
            "y/pooled = quantized_average_pool(x, high=255, kernel_shape=(3, 5), low=0, "
            "scale=0.25, x_zero_point=100, y_zero_point=120)\ny = reshape(y/pooled, y/shape)",
        ),
        (
            "c = resize(f, _, _, sizes, mode='linear'); y = quantize_linear(c, sx, zx); output(y)",
            f"y = quantized_resize(x, c/2, c/2.1, c/3, c/3.1, {FULL}, scale=1.0, "
            "x_zero_point=100, y_zero_point=100)",
        ),
        (
            "c = concat(f, h, axis=1); y = quantize_linear(c, sx, zx); output(y)",
            "y/part = lookup(z, y/table)\ny = concat(x, y/part, axis=1)",
        ),
        ("y = quantize_linear(f, sx, zx); output(y)", "y = identity(x)"),
    ],
)
def test_each_has_its_op(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(integer_elements, graph(lines), after)


def test_two_functions_of_one_value_are_one(becomes: Callable[..., Graph]) -> None:
    lines = (
        "d = sigmoid(f); q = quantize_linear(d, fine, zx); e = dequantize_linear(q, fine, zx);"
        f" c = mul(f, e); {ROUNDED}"
    )
    becomes(integer_elements, graph(lines), "y = lookup(x, y/table)")


@pytest.mark.parametrize(
    "lines",
    [
        f"c = softmax(f); {ROUNDED}",
        f"c = reduce_mean(f, channels, keepdims=0); {ROUNDED}",
        f"c = average_pool(f, kernel_shape=(2, 2), auto_pad='SAME_UPPER'); {ROUNDED}",
        f"c = resize(f, _, _, sizes, mode='cubic'); {ROUNDED}",
        f"e = exp(h); c = mul(f, e); {ROUNDED}",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(integer_elements, graph(lines))


def test_the_table_is_what_the_ops_give(text: Callable[[str], Graph]) -> None:
    after = integer_elements(text(graph(f"c = relu(f); {ROUNDED}")))
    real = np.maximum((np.arange(256) - 100) * 0.5, 0)
    np.testing.assert_array_equal(after.constants["y/table"], np.rint(real / 2) + 120)
