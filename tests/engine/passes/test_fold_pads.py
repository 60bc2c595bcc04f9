from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fold_pads import fold_pads

HEAD = """
    x = input(1, 4, 6, 6)
    w = random(4, 4, 3, 3)
    around = int64(0, 0, 1, 0, 0, 0, 2, 1)
    channels = int64(0, 0, 0, 0, 0, 3, 0, 0)
    before = int64(0, 3, 0, 0, 0, 0, 0, 0)
    cut = int64(0, 0, -1, 0, 0, 0, 0, 0)
    zero = float32(0.0)
    five = float32(5.0)
    wide = random(7, 4, 3, 3)
    r = relu(x)
    """


def graph(*lines: str) -> str:
    return HEAD + "\n    ".join([*lines, "output(y)"])


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            ["p = pad(x, around)", "y = conv(p, w)"],
            "y = conv(x, w, pads=(1, 0, 2, 1))",
        ),
        (
            ["p = pad(x, around, zero)", "y = conv(p, w, pads=(0, 1, 0, 1), strides=(2, 2))"],
            "y = conv(x, w, pads=(1, 1, 2, 2), strides=(2, 2))",
        ),
        (
            ["p = pad(x, around)", "y = conv(p, w, auto_pad='VALID')"],
            "y = conv(x, w, pads=(1, 0, 2, 1))",
        ),
        (
            ["p = pad(x, around)", "y = average_pool(p, kernel_shape=(3, 3))"],
            "y = average_pool(x, count_include_pad=1, kernel_shape=(3, 3), pads=(1, 0, 2, 1))",
        ),
        (
            ["p = pad(r, around)", "y = max_pool(p, kernel_shape=(3, 3))"],
            "r = relu(x)\ny = max_pool(r, kernel_shape=(3, 3), pads=(1, 0, 2, 1))",
        ),
    ],
)
def test_folds(becomes: Callable[..., Graph], lines: list[str], after: str) -> None:
    becomes(fold_pads, graph(*lines), after)


def test_pads_of_pads(becomes: Callable[..., Graph]) -> None:
    becomes(
        fold_pads,
        graph("p = pad(x, around)", "q = pad(p, channels, zero)", "y = relu(q)"),
        "q = pad(x, q/pads, zero)\ny = relu(q)",
    )


def test_channel_pads_of_what_is_added(becomes: Callable[..., Graph]) -> None:
    becomes(
        fold_pads,
        graph("p = pad(r, channels)", "y = fused_conv(x, wide, _, p, pads=(1, 1, 1, 1))"),
        "r = relu(x)\ny = fused_conv(x, wide, , r, pads=(1, 1, 1, 1))",
    )


@pytest.mark.parametrize(
    "lines",
    [
        ["p = pad(x, around, five)", "y = conv(p, w)"],
        ["p = pad(x, around)", "q = pad(p, cut)", "y = relu(q)"],
        ["p = pad(x, around, five)", "q = pad(p, around)", "y = relu(q)"],
        ["p = pad(x, around, mode='edge')", "y = conv(p, w)"],
        ["p = pad(x, cut)", "y = conv(p, w)"],
        ["p = pad(x, around)", "y = conv(p, w, auto_pad='SAME_UPPER')"],
        ["p = pad(x, around)", "y = max_pool(p, kernel_shape=(3, 3))"],
        ["p = pad(r, around)", "y = max_pool(p, kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1)"],
        ["p = pad(r, around)", "y = max_pool(p, kernel_shape=(2, 2))"],
        ["p = pad(r, around)", "y = max_pool(p, kernel_shape=(3, 3), dilations=(2, 2))"],
        ["p = pad(x, around)", "y = average_pool(p, kernel_shape=(3, 3), pads=(1, 1, 1, 1))"],
        ["p = pad(r, before)", "y = fused_conv(x, wide, _, p, pads=(1, 1, 1, 1))"],
        ["p = pad(r, channels)", "y = relu(p)"],
    ],
)
def test_others_stay(text: Callable[[str], Graph], lines: list[str]) -> None:
    assert "pad" in [node.op for node in fold_pads(text(graph(*lines))).nodes]
