from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fuse_residual import fuse_residual


@pytest.mark.parametrize("total", ["add(a, z)", "add(z, a)"])
def test_either_side(becomes: Callable[..., Graph], total: str) -> None:
    becomes(
        fuse_residual,
        f"""
        x = input(1, 3, 6, 6)
        z = input(1, 4, 4, 4)
        w = random(4, 3, 3, 3)
        a = conv(x, w)
        y = {total}
        output(y)
        """,
        "y = fused_conv(x, w, , z)",
    )


@pytest.mark.parametrize("total", ["add(a, b)", "add(b, a)"])
def test_the_later_of_two_takes_the_other_in(becomes: Callable[..., Graph], total: str) -> None:
    becomes(
        fuse_residual,
        f"""
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        v = random(4, 3, 3, 3)
        bias = random(4)
        a = conv(x, w)
        b = conv(x, v, bias)
        y = {total}
        output(y)
        """,
        """
        a = conv(x, w)
        y = fused_conv(x, v, bias, a)
        """,
    )


@pytest.mark.parametrize(
    ("dims", "layer", "outputs"),
    [
        ("1, 1, 4, 4", "conv(x, w)", "y"),
        ("1, 4, 1, 1", "conv(x, w)", "y"),
        ("2, 4, 4, 4", "conv(x, w)", "y"),
        ("1, 4, 4, 4", "conv(x, w)", "y, a"),
        ("1, 4, 4, 4", "fused_conv(x, w, activation='sigmoid')", "y"),
        ("1, 4, 4, 4", "fused_conv(x, w, _, other)", "y"),
    ],
)
def test_others_stay(stays: Callable[..., None], dims: str, layer: str, outputs: str) -> None:
    stays(
        fuse_residual,
        f"""
        x = input(1, 3, 6, 6)
        z = input({dims})
        other = input(1, 2, 4, 4)
        w = random(4, 3, 3, 3)
        a = {layer}
        y = add(a, z)
        output({outputs})
        """,
    )


def test_twice_the_same_stays(stays: Callable[..., None]) -> None:
    stays(
        fuse_residual,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        a = conv(x, w)
        y = add(a, a)
        output(y)
        """,
    )
