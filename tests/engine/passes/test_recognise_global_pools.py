from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.recognise_global_pools import recognise_global_pools

HEAD = """
    x = input(1, 3, 4, 5)
    axes = int64(-1, 2)
    one = int64(3)
    y = {node}
    output(y)
    """


@pytest.mark.parametrize(
    ("node", "pool"),
    [
        ("average_pool(x, kernel_shape=(4, 5), strides=(4, 5))", "global_average_pool"),
        ("reduce_mean(x, axes)", "global_average_pool"),
        ("max_pool(x, kernel_shape=(4, 5))", "global_max_pool"),
        ("reduce_max(x, axes, keepdims=1)", "global_max_pool"),
    ],
)
def test_each(becomes: Callable[..., Graph], node: str, pool: str) -> None:
    becomes(recognise_global_pools, HEAD.format(node=node), f"y = {pool}(x)")


@pytest.mark.parametrize(
    "node",
    [
        "average_pool(x, kernel_shape=(4, 4))",
        "average_pool(x, kernel_shape=(4, 5), pads=(1, 1, 1, 1), count_include_pad=1)",
        "reduce_mean(x, axes, keepdims=0)",
        "reduce_mean(x, one)",
        "reduce_mean(x)",
    ],
)
def test_others_stay(stays: Callable[..., None], node: str) -> None:
    stays(recognise_global_pools, HEAD.format(node=node))
