from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fold_scales import fold_scales

HEAD = """
    x = input(2, 4, 5, 6)
    rows = input(3, 4)
    tall = input(4, 3)
    many = input(2, 3, 4)
    c = random(4, 1, 1)
    r = random(4)
    a = random(1, 1, 1, 6)
    half = float32(0.5)
    w = random(3, 4, 3, 3)
    b = random(3)
    g = random(8, 2, 1, 1)
    t = random(4, 3, 2, 2)
    m = random(4, 5)
    n = random(5, 4)
    bm = random(5)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("s = mul(x, c); y = conv(s, w)", "y = conv(x, w/scaled)"),
        ("s = div(x, c); y = conv(s, w, b, pads=(1, 1, 1, 1))",
         "y = conv(x, w/scaled, b, pads=(1, 1, 1, 1))"),
        ("s = mul(half, x); y = conv(s, g, group=2)", "y = conv(x, g/scaled, group=2)"),
        ("s = add(c, x); y = conv(s, w)", "y = conv(x, w, y/bias)"),
        ("s = sub(x, c); y = conv(s, g, group=2)", "y = conv(x, g, y/bias, group=2)"),
        ("s = mul(x, c); y = conv_transpose(s, t)", "y = conv_transpose(x, t/scaled)"),
        ("s = mul(rows, r); y = gemm(s, m, bm)", "y = gemm(rows, m/scaled, bm)"),
        ("s = add(rows, r); y = gemm(s, n, bm, transB=1, alpha=0.5)",
         "y = gemm(rows, n, y/bias, alpha=0.5, transB=1)"),
        ("s = div(many, r); y = matmul(s, m)", "y = matmul(many, m/scaled)"),
    ],
)  # fmt: skip
def test_folds(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(fold_scales, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "s = add(x, c); y = conv(s, w, pads=(1, 1, 1, 1))",
        "s = add(x, c); y = conv(s, w, auto_pad='SAME_UPPER')",
        "s = mul(x, a); y = conv(s, w)",
        "s = sub(c, x); y = conv(s, w)",
        "s = div(half, x); y = conv(s, w)",
        "s = add(x, c); y = conv_transpose(s, t)",
        "s = mul(x, c); p = conv(s, w); q = relu(s); z = reduce_mean(q); y = add(p, z)",
        "s = mul(tall, half); y = gemm(s, m, transA=1)",
        "s = add(many, r); y = matmul(s, m)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(fold_scales, graph(lines))


def test_scales_that_are_no_numbers_stay(stays: Callable[..., None]) -> None:
    stays(fold_scales, graph("i = float32(1e999); s = mul(x, i); y = conv(s, w)"))
    stays(fold_scales, graph("o = float32(0.0); s = div(x, o); y = conv(s, w)"))
