from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.split_means import split_means

BEFORE = """
    a = input(2, 3, 4, 5)
    b = input(2, 3, 4, 5)
    wide = input(2, 3, 1, 1)
    s = {sum}
    y = {pool}(s)
    output({outputs})
    """


def test_of_a_sum(becomes: Callable[..., Graph]) -> None:
    becomes(
        split_means,
        BEFORE.format(sum="add(a, b)", pool="global_average_pool", outputs="y"),
        """
        y/a = global_average_pool(a)
        y/b = global_average_pool(b)
        y = add(y/a, y/b)
        """,
    )


@pytest.mark.parametrize(
    ("sum", "pool", "outputs"),
    [
        ("add(a, b)", "global_average_pool", "y, s"),
        ("add(a, b)", "global_max_pool", "y"),
        ("add(a, wide)", "global_average_pool", "y"),
        ("mul(a, b)", "global_average_pool", "y"),
    ],
)
def test_others_stay(stays: Callable[..., None], sum: str, pool: str, outputs: str) -> None:
    stays(split_means, BEFORE.format(sum=sum, pool=pool, outputs=outputs))
