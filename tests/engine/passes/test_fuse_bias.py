from collections.abc import Callable

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fuse_bias import fuse_bias


def test_add_and_sub(becomes: Callable[..., Graph]) -> None:
    becomes(
        fuse_bias,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        b = random(4, 1, 1)
        c = float32(0.5)
        a = conv(x, w)
        d = add(b, a)
        y = sub(d, c)
        output(y)
        """,
        "y = conv(x, w, y/bias)",
    )


def test_matmul_becomes_gemm(becomes: Callable[..., Graph]) -> None:
    becomes(
        fuse_bias,
        """
        x = input(2, 4)
        w = random(4, 3)
        b = random(3)
        a = matmul(x, w)
        y = add(a, b)
        output(y)
        """,
        "y = gemm(x, w, y/bias)",
    )


def test_a_constant_minus_the_layer_stays(stays: Callable[..., None]) -> None:
    stays(
        fuse_bias,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        c = float32(0.5)
        a = conv(x, w)
        y = sub(c, a)
        output(y)
        """,
    )


def test_a_bias_by_pixel_stays(stays: Callable[..., None]) -> None:
    stays(
        fuse_bias,
        """
        x = input(1, 3, 6, 6)
        w = random(4, 3, 3, 3)
        b = random(4)
        a = conv(x, w)
        y = add(a, b)
        output(y)
        """,
    )


def test_matmul_of_more_axes(becomes: Callable[..., Graph]) -> None:
    becomes(
        fuse_bias,
        """
        x = input(2, 5, 4)
        w = random(4, 3)
        b = random(3)
        a = matmul(x, w)
        y = add(b, a)
        output(y)
        """,
        """
        y/flat = reshape(x, y/rows)
        y/product = gemm(y/flat, w, y/bias)
        y = reshape(y/product, y/shape)
        """,
    )
