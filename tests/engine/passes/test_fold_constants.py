from collections.abc import Callable

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fold_constants import fold_constants


def test_shape_arithmetic_vanishes(becomes: Callable[..., Graph]) -> None:
    graph = becomes(
        fold_constants,
        """
        x = input(2, 3, 4, 5)
        first = int64(0)
        rest = int64(-1)
        dims = shape(x)
        batch = gather(dims, first)
        target = concat(batch, rest, axis=0)
        y = reshape(x, target)
        output(y)
        """,
        "y = reshape(x, target/folded)",
    )
    assert graph.constants["target/folded"].tolist() == [2, -1]


def test_shape_of_a_computed_value_vanishes(becomes: Callable[..., Graph]) -> None:
    becomes(
        fold_constants,
        """
        x = input(1, 3, 8, 8)
        w = random(4, 3, 3, 3)
        c = conv(x, w)
        dims = shape(c, start=2)
        s = cast(dims, to="float32")
        output(c, s)
        """,
        """
        c = conv(x, w)
        s = identity(s/folded)
        """,
    )


def test_unknown_dims_stay(stays: Callable[..., None]) -> None:
    stays(
        fold_constants,
        """
        x = input("batch", 3)
        dims = shape(x)
        s = cast(dims, to="float32")
        output(s)
        """,
    )


def test_what_would_be_huge_stays(stays: Callable[..., None]) -> None:
    stays(
        fold_constants,
        """
        x = input(1)
        one = float32([1.0])
        dims = int64(1000, 1000, 1000)
        big = expand(one, dims)
        y = add(x, big)
        output(y)
        """,
    )
