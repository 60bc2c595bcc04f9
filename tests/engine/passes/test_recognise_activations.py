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


CONSTANTS = """
    root = float32(1.4142135)
    half = float32(0.5)
    one = float32(1.0)
    cubic = float32(0.044715)
    factor = float32(0.7978846)
    fifth = float32(0.2)
    large = float32(2.0)
    slope = random(4)
    """


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("a = mul(x, fifth); b = add(a, half); y = clip(b, low, one)",
         "y = hard_sigmoid(x, alpha=0.20000000298023224, beta=0.5)"),
        ("a = div(x, root); b = erf(a); c = add(b, one); d = mul(x, c); y = mul(half, d)",
         "y = gelu(x)"),
        ("a = div(x, root); b = erf(a); c = add(b, one); d = mul(x, half); y = mul(d, c)",
         "y = gelu(x)"),
        ("p = pow(x, three); a = mul(cubic, p); b = add(x, a); c = mul(b, factor); d = tanh(c);"
         " e = add(one, d); f = mul(half, x); y = mul(f, e)", "y = gelu(x, approximate='tanh')"),
        ("q = mul(x, x); p = mul(x, q); a = mul(cubic, p); b = add(x, a); c = mul(b, factor);"
         " d = tanh(c); e = add(one, d); f = mul(x, e); y = mul(f, half)",
         "y = gelu(x, approximate='tanh')"),
        ("a = neg(x); b = exp(a); c = add(b, one); y = div(one, c)", "y = sigmoid(x)"),
        ("a = neg(x); b = exp(a); c = add(one, b); y = reciprocal(c)", "y = sigmoid(x)"),
        ("a = sigmoid(x); y = mul(a, x)", "y = swish(x)"),
        ("a = exp(x); b = add(one, a); y = log(b)", "y = softplus(x)"),
        ("a = exp(x); b = add(a, one); c = log(b); d = tanh(c); y = mul(x, d)", "y = mish(x)"),
        ("a = abs(x); b = add(a, one); y = div(x, b)", "y = softsign(x)"),
        ("a = mul(x, fifth); y = max(x, a)", "y = leaky_relu(x, alpha=0.20000000298023224)"),
        ("a = mul(x, slope); b = greater(x, low); y = where(b, x, a)", "y = prelu(x, y/slope)"),
        ("a = relu(x); b = neg(x); c = relu(b); d = mul(slope, c); y = add(a, d)",
         "y = prelu(x, y/slope)"),
        ("a = relu(x); b = neg(x); c = relu(b); d = mul(c, slope); y = sub(a, d)",
         "y = prelu(x, y/slope)"),
        ("a = relu(x); b = abs(x); c = sub(x, b); d = mul(c, slope); y = add(d, a)",
         "y = prelu(x, y/slope)"),
    ],
)  # fmt: skip
def test_written_out(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    text = HEAD.rstrip() + CONSTANTS + lines.replace("; ", "\n    ") + TAIL
    becomes(recognise_activations, text, after)


@pytest.mark.parametrize(
    "lines",
    [
        "a = div(x, half); b = erf(a); c = add(b, one); d = mul(x, half); y = mul(d, c)",
        "a = neg(x); b = exp(a); c = add(b, half); y = div(one, c)",
        "a = mul(x, large); y = max(x, a)",
        "a = sigmoid(x); b = tanh(x); y = mul(a, b)",
        "a = relu(x); b = neg(x); c = relu(b); d = mul(c, x); y = sub(a, d)",
        "a = mul(x, slope); b = less(x, low); y = where(b, x, a)",
    ],
)
def test_what_is_nearly_an_activation_stays(stays: Callable[..., None], lines: str) -> None:
    text = HEAD.rstrip() + CONSTANTS + lines.replace("; ", "\n    ") + TAIL
    stays(recognise_activations, text)


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
