from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_pointwise import merge_pointwise

HEAD = """
    x = input(1, 4, 6, 5)
    v = random(6, 4, 1, 1)
    w = random(5, 6, 1, 1)
    b = random(5)
    a = random(6)
    narrow = random(2, 4, 1, 1)
    widen = random(9, 2, 1, 1)
    k = random(5, 6, 3, 3)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("p = conv(x, v); y = conv(p, w)", "y = conv(x, y/weights)"),
        ("p = conv(x, v, a, strides=(2, 2)); y = conv(p, w, b)",
         "y = conv(x, y/weights, y/bias, strides=(2, 2))"),
    ],
)  # fmt: skip
def test_merges(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(merge_pointwise, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        "p = conv(x, narrow); y = conv(p, widen)",
        "p = conv(x, v); y = conv(p, k)",
        "p = conv(x, v, pads=(1, 1, 1, 1)); y = conv(p, w)",
        "p = conv(x, v, a); y = conv(p, w, pads=(1, 1, 1, 1))",
        "p = conv(x, v); q = relu(p); y = conv(q, w)",
        "p = conv(x, v); q = conv(p, w); r = relu(p); y = concat(q, r, axis=1)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(merge_pointwise, graph(lines))
