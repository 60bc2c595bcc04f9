from collections.abc import Callable

import numpy as np

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fold_constants import fold_constants, fold_levels


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


LEVELS = """
    x = input(1, 3, {height}, 8)
    q = levels(4, 3, 3, 3)
    sx = float32(0.5)
    zx = uint8(100)
    sw = float32(0.25)
    zw = int8(0)
    w = dequantize_linear(q, sw, zw)
    y = conv(x, w)
    r = quantize_linear(y, sx, zx)
    output(r)
"""


def test_weights_of_a_quantized_graph_wait_for_its_layers(stays: Callable[..., None]) -> None:
    stays(fold_constants, LEVELS.format(height=8))


def test_levels_that_no_layer_took_become_floats(becomes: Callable[..., Graph]) -> None:
    graph = becomes(
        fold_levels,
        LEVELS.format(height=8),
        "y = conv(x, w/folded)\nr = quantize_linear(y, sx, zx)",
    )
    assert graph.constants["w/folded"].dtype == np.float32


def test_levels_stay_while_a_size_is_open(stays: Callable[..., None]) -> None:
    stays(fold_levels, LEVELS.format(height='"height"'))
