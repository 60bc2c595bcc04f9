from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes import optimise
from palmkit.engine.passes.recognise_normalizations import recognise_normalizations

HEAD = """
    x = input(2, 6, 4, 5)
    t = input(2, 3, 8)
    last = int64(-1,)
    space = int64(2, 3)
    front = int64(0,)
    epsilon = float32(0.001)
    one = float32(1.0)
    g = random(8)
    h = random(8)
    c = random(6, 1, 1)
    d = random(6, 1, 1)
    ones = float32(1, 1, 1)
    nothing = float32(0, 0, 0)
    groups = int64(2, 3, -1)
    whole = int64(2, 6, 4, 5)
    """


def graph(lines: str) -> str:
    return HEAD + lines.replace("; ", "\n    ") + "\n    output(y)\n"


def standardised(x: str, axes: str, end: str) -> str:
    return (
        f"m = reduce_mean({x}, {axes}); e = sub({x}, m); q = mul(e, e); "
        f"v = reduce_mean(q, {axes}); w = add(v, epsilon); s = sqrt(w); {end}"
    )


@pytest.mark.parametrize(
    "end", ["y = div(e, s)", "r = reciprocal(s); y = mul(r, e)", "r = div(one, s); y = mul(e, r)"]
)
def test_layer_normalization(becomes: Callable[..., Graph], end: str) -> None:
    becomes(
        recognise_normalizations,
        graph(standardised("t", "last", end)),
        "y = layer_normalization(t, y/scale, axis=-1, epsilon=0.0010000000474974513)",
    )


def test_scale_and_bias(becomes: Callable[..., Graph]) -> None:
    becomes(
        recognise_normalizations,
        graph(standardised("t", "last", "n = div(e, s); p = mul(n, g); y = add(h, p)")),
        "y = layer_normalization(t, y/scale, y/bias, axis=-1, epsilon=0.0010000000474974513)",
    )
    becomes(
        recognise_normalizations,
        graph(standardised("x", "space", "n = div(e, s); p = mul(n, c); y = add(p, d)")),
        "y = instance_normalization(x, y/scale, y/bias, epsilon=0.0010000000474974513)",
    )


def test_the_source_of_the_two_differences_may_be_written_twice(
    becomes: Callable[..., Graph],
) -> None:
    lines = """m = reduce_mean(t, last); e = sub(t, m); f = sub(t, m); q = mul(f, f)
    v = reduce_mean(q, last); w = add(v, epsilon); s = sqrt(w); y = div(e, s)"""
    becomes(
        optimise,
        graph(lines),
        "y = layer_normalization(t, y/scale, axis=-1, epsilon=0.0010000000474974513)",
    )


FOLDED = "r = reciprocal(s); f = mul(r, g)"


@pytest.mark.parametrize(
    ("end", "after"),
    [
        (
            f"{FOLDED}; y = mul(e, f)",
            "y = layer_normalization(t, y/scale, axis=-1, epsilon=0.0010000000474974513)",
        ),
        (
            f"{FOLDED}; a = mul(t, f); k = mul(m, f); l = sub(h, k); y = add(a, l)",
            "y = layer_normalization(t, y/scale, y/bias, axis=-1, epsilon=0.0010000000474974513)",
        ),
    ],
)
def test_scale_in_the_formula(becomes: Callable[..., Graph], end: str, after: str) -> None:
    becomes(recognise_normalizations, graph(standardised("t", "last", end)), after)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        ("q = mul(t, t); v = reduce_mean(q, last); w = add(v, epsilon); s = sqrt(w);"
         " n = div(t, s); y = mul(n, g)",
         "y = rms_normalization(t, y/scale, axis=-1, epsilon=0.0010000000474974513)"),
        ("a = reshape(x, groups); n = instance_normalization(a, ones, nothing);"
         " b = reshape(n, whole); p = mul(b, c); y = add(p, d)",
         "y = group_normalization(x, y/scale, y/bias, epsilon=1e-05, num_groups=3)"),
        ("m = reduce_max(t, last); e = sub(t, m); p = exp(e); s = reduce_sum(p, last);"
         " y = div(p, s)", "y = softmax(t, axis=-1)"),
        ("q = mul(t, t); s = reduce_sum(q, last); y = sqrt(s)", "y = reduce_l2(t, last)"),
    ],
)  # fmt: skip
def test_others_of_the_family(becomes: Callable[..., Graph], lines: str, after: str) -> None:
    becomes(recognise_normalizations, graph(lines), after)


@pytest.mark.parametrize(
    "lines",
    [
        standardised("t", "front", "y = div(e, s)"),
        standardised("t", "last", "y = div(s, e)"),
        standardised("t", "last", "y = div(t, s)"),
        "q = mul(t, t); v = reduce_mean(q, last, keepdims=0); w = add(v, epsilon); y = sqrt(w)",
        "m = reduce_max(t, last); e = sub(t, m); p = exp(e); s = reduce_sum(p, front);"
        " y = div(p, s)",
        "p = exp(t); s = reduce_sum(p, last); y = div(p, s)",
        "n = layer_normalization(t, g, h); y = mul(n, t)",
        "n = instance_normalization(t, ones, nothing); y = mul(n, g)",
    ],
)
def test_others_stay(stays: Callable[..., None], lines: str) -> None:
    stays(recognise_normalizations, graph(lines))
