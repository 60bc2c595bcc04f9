from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_heads import merge_heads

HEAD = """
    x = input(1, 3, 6, 5)
    z = input(1, 3, 6, 5)
    v = random(2, 3, 3, 3)
    w = random(4, 3, 3, 3)
    b = random(4)
    u = random(4, 3, 1, 1)
    big = random(16, 3, 3, 3)
    bigger = random(24, 3, 3, 3)
    depthwise = random(3, 1, 3, 3)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


@pytest.mark.parametrize(
    ("lines", "merged"),
    [
        ("p = conv(x, v); q = conv(x, w); y = concat(p, q, axis=1)",
         "p/merged = conv(x, p/merged/weights)"),
        ("p = conv(x, v, pads=(1, 1, 1, 1)); q = conv(x, w, b, pads=(1, 1, 1, 1));"
         " y = concat(p, q, axis=1)",
         "p/merged = conv(x, p/merged/weights, p/merged/bias, pads=(1, 1, 1, 1))"),
    ],
)  # fmt: skip
def test_merges(becomes: Callable[..., Graph], lines: str, merged: str) -> None:
    split = "p, q = split(p/merged, p/merged/sizes, axis=1)\ny = concat(p, q, axis=1)"
    becomes(merge_heads, graph(lines), f"{merged}\n{split}")


@pytest.mark.parametrize(
    "lines",
    [
        "p = conv(x, v); q = conv(z, w); y = concat(p, q, axis=1)",
        "p = conv(x, v); q = conv(x, w, pads=(1, 1, 1, 1)); y = sum(q)",
        "p = conv(x, v); q = conv(x, u); y = concat(q, axis=1); r = relu(p)",
        "p = conv(x, big); q = conv(x, bigger); y = concat(p, q, axis=1)",
        "p = conv(x, w, group=1); q = conv(x, depthwise, group=3); y = concat(p, q, axis=1)",
    ],
)
def test_others_stay(text: Callable[[str], Graph], lines: str) -> None:
    after = merge_heads(text(graph(lines)))
    assert "split" not in [node.op for node in after.nodes]
