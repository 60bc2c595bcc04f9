from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.simplify import simplify

HEAD = """
    x = input(2, 3, 4)
    z = input(2, 3, 4)
    row = input(4)
    zero = float32(0.0)
    half = float32(0.5)
    one = float32(1.0)
    two = float32(2.0)
    three = float32(3.0)
    minus = float32(-1.0)
    six = float32(6.0)
    low = float32(-2.0)
    c = random(4)
    d = random(3, 1)
    wide = random(5, 2, 3, 4)
    shape = int64(2, 3, 4)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("p = pow(x, two); y = neg(p)", "p = mul(x, x)\ny = neg(p)"),
        ("p = pow(x, two); y = relu(p)", "y = mul(x, x)"),
        ("a = abs(x); p = pow(a, half); y = neg(p)", "a = abs(x)\np = sqrt(a)\ny = neg(p)"),
        ("y = pow(x, minus)", "y = reciprocal(x)"),
        ("p = neg(x); q = neg(p); y = exp(q)", "y = exp(x)"),
        ("p = sigmoid(x); q = relu(p); y = exp(q)", "p = sigmoid(x)\ny = exp(p)"),
        ("p = mul(x, x); q = abs(p); y = exp(q)", "p = mul(x, x)\ny = exp(p)"),
        ("p = floor(x); q = floor(p); y = exp(q)", "p = floor(x)\ny = exp(p)"),
        ("n = neg(z); y = add(x, n)", "y = sub(x, z)"),
        ("n = neg(z); y = add(n, x)", "y = sub(x, z)"),
        ("n = neg(z); y = sub(x, n)", "y = add(x, z)"),
        ("p = cast(x, to='float64'); y = cast(p, to='int32')", "y = cast(x, to='int32')"),
        ("y = max(x, zero)", "y = clip(x, zero)"),
        ("y = min(six, x)", "y = clip(x, , six)"),
        ("p = relu(x); y = clip(p, low, six)", "y = clip(x, y/bound, y/bound.1)"),
        ("p = add(x, c); y = sub(p, three)", "y = add(x, y/add)"),
        ("p = mul(c, x); y = div(p, three)", "y = mul(x, y/mul)"),
        ("p = div(x, two); y = mul(p, c)", "y = mul(x, y/mul)"),
        ("e = expand(row, shape); y = add(x, e)", "y = add(x, row)"),
        ("y = sum(x, z)", "y = add(x, z)"),
    ],
)
def test_simplifies(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(simplify, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "y = pow(x, three)",
        "y = pow(x, half)",
        "y = pow(row, wide)",
        "p = neg(x); y = abs(p)",
        "p = tanh(x); y = relu(p)",
        "p = cast(x, to='float16'); y = cast(p, to='float32')",
        "p = cast(x, to='int32'); y = cast(p, to='float32')",
        "y = max(x, c)",
        "y = max(row, wide)",
        "p = add(x, c); y = mul(p, three)",
        "p = add(x, c); y = sub(p, d)",
        "p = sub(c, x); y = add(p, three)",
        "p = add(x, c); q = add(p, three); r = relu(p); y = add(q, r)",
        "e = expand(row, shape); y = add(row, e)",
        "y = sum(x, z, row)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(simplify, graph(lines))
