from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.fuse_multiply_add import fuse_multiply_add

BEFORE = """
    x = input(1, 3, 4, 5)
    gate = input(1, 3, 1, 1)
    z = input(1, 3, 4, 5)
    known = random(1, 3, 4, 5)
    scale = random(1, 3, 1, 1)
    m = {product}
    y = {sum}
    output({outputs})
    """


@pytest.mark.parametrize("product", ["mul(x, gate)", "mul(gate, x)"])
@pytest.mark.parametrize("sum", ["add(m, z)", "add(z, m)"])
def test_each(becomes: Callable[..., Graph], product: str, sum: str) -> None:
    before = BEFORE.format(product=product, sum=sum, outputs="y")
    becomes(fuse_multiply_add, before, "y = multiply_add(x, gate, z)")


@pytest.mark.parametrize(
    ("product", "sum", "outputs"),
    [
        ("mul(x, gate)", "add(m, z)", "y, m"),
        ("mul(x, gate)", "add(m, gate)", "y"),
        ("mul(x, gate)", "add(m, known)", "y"),
        ("mul(x, scale)", "add(m, z)", "y"),
        ("mul(gate, gate)", "add(m, z)", "y"),
        ("sub(x, gate)", "add(m, z)", "y"),
        ("mul(x, gate)", "sub(m, z)", "y"),
    ],
)
def test_others_stay(stays: Callable[..., None], product: str, sum: str, outputs: str) -> None:
    stays(fuse_multiply_add, BEFORE.format(product=product, sum=sum, outputs=outputs))


def test_integers_stay(stays: Callable[..., None]) -> None:
    stays(
        fuse_multiply_add,
        """
        x = input(3, 4)
        s = shape(x)
        m = mul(s, s)
        y = add(m, s)
        output(y)
        """,
    )
