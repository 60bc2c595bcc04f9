from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.recognise_activations import recognise_activations

HEAD = """
    x = input(3, 4)
    three = float32(3.0)
    four = float32(4.0)
    low = float32(0.0)
    high = float32(6.0)
    sixth = float32([0.16666667])
    """
TAIL = "\n    output(y)\n"


@pytest.mark.parametrize(
    "lines",
    [
        "s = add(x, three); c = clip(s, low, high); y = div(c, high)",
        "s = add(three, x); c = clip(s, low, high); y = mul(sixth, c)",
    ],
)
def test_hard_sigmoid(becomes: Callable[..., Graph], lines: str) -> None:
    becomes(
        recognise_activations,
        HEAD + lines.replace("; ", "\n    ") + TAIL,
        "y = hard_sigmoid(x, alpha=0.16666666666666666, beta=0.5)",
    )


@pytest.mark.parametrize(
    "lines",
    [
        "s = add(x, three); c = clip(s, low, high); d = div(c, high); y = mul(x, d)",
        "s = add(x, three); c = clip(s, low, high); d = mul(x, c); y = div(d, high)",
        "s = add(three, x); c = clip(s, low, high); d = mul(c, x); y = mul(d, sixth)",
        "d = hard_sigmoid(x, alpha=0.16666667, beta=0.5); y = mul(d, x)",
    ],
)
def test_hard_swish(becomes: Callable[..., Graph], lines: str) -> None:
    becomes(recognise_activations, HEAD + lines.replace("; ", "\n    ") + TAIL, "y = hard_swish(x)")


@pytest.mark.parametrize(
    "lines",
    [
        "s = add(x, four); c = clip(s, low, high); y = div(c, high)",
        "s = add(x, three); c = clip(s, low, four); y = div(c, high)",
        "s = add(x, three); c = clip(s, low, high); y = div(c, four)",
        "s = add(x, three); c = clip(s, low, high); d = mul(s, c); y = div(d, high)",
        "s = add(x, three); c = clip(s, low, high); y = div(high, c)",
        "d = hard_sigmoid(x); y = mul(d, x)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(recognise_activations, HEAD + lines.replace("; ", "\n    ") + TAIL)
