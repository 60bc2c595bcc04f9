from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.write_out_einsum import write_out_einsum


@pytest.mark.parametrize(
    ("equation", "a", "b", "after"),
    [
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5), "y = matmul(a, b)"),
        (
            "bhid,bhjd->bhij",
            (1, 2, 3, 4),
            (1, 2, 5, 4),
            """
            y.transpose = transpose(b, perm=(0, 1, 3, 2))
            y = matmul(a, y.transpose)
            """,
        ),
        (
            "...ij,...kj->...ki",
            (2, 3, 4),
            (2, 5, 4),
            """
            y.transpose = transpose(b, perm=(0, 2, 1))
            y.matmul = matmul(a, y.transpose)
            y = transpose(y.matmul, perm=(0, 2, 1))
            """,
        ),
        (
            "bchw,ck->bkhw",
            (1, 3, 4, 5),
            (3, 2),
            """
            y.transpose = transpose(a, perm=(0, 2, 3, 1))
            y.reshape = reshape(y.transpose, y.shape)
            y.matmul = matmul(y.reshape, b)
            y.reshape.1 = reshape(y.matmul, y.shape.1)
            y = transpose(y.reshape.1, perm=(0, 3, 1, 2))
            """,
        ),
        (
            "i,j->ij",
            (3,),
            (4,),
            """
            y.reshape = reshape(a, y.shape)
            y.reshape.1 = reshape(b, y.shape.1)
            y = matmul(y.reshape, y.reshape.1)
            """,
        ),
        (
            "i,i->",
            (3,),
            (3,),
            """
            y.reshape = reshape(a, y.shape)
            y.reshape.1 = reshape(b, y.shape.1)
            y.matmul = matmul(y.reshape, y.reshape.1)
            y = reshape(y.matmul, y.shape.2)
            """,
        ),
    ],
)
def test_two_values(
    becomes: Callable[..., Graph],
    equation: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    after: str,
) -> None:
    sizes = [", ".join(map(str, dims)) for dims in (a, b)]
    before = f"""
        a = input({sizes[0]})
        b = input({sizes[1]})
        y = einsum(a, b, equation="{equation}")
        output(y)
    """
    becomes(write_out_einsum, before, after)


@pytest.mark.parametrize(
    ("equation", "after"),
    [
        ("ijk->kij", "y = transpose(a, perm=(2, 0, 1))"),
        ("...ij->...ji", "y = transpose(a, perm=(0, 2, 1))"),
        ("ijk->ik", "y = reduce_sum(a, y.axes, keepdims=0)"),
        ("ijk->ijk", "y = identity(a)"),
    ],
)
def test_one_value(becomes: Callable[..., Graph], equation: str, after: str) -> None:
    before = f"a = input(2, 3, 4)\ny = einsum(a, equation='{equation}')\noutput(y)"
    becomes(write_out_einsum, before, after)


@pytest.mark.parametrize("equation", ["ii->i", "ij,jk,kl->il"])
def test_stays(stays: Callable[..., None], equation: str) -> None:
    inputs = ", ".join("a" for _ in equation.partition("->")[0].split(","))
    stays(
        write_out_einsum,
        f"a = input(3, 3)\ny = einsum({inputs}, equation='{equation}')\noutput(y)",
    )


def test_broadcast_axes_stay(stays: Callable[..., None]) -> None:
    stays(
        write_out_einsum,
        "a = input(1, 3)\nb = input(2, 3)\ny = einsum(a, b, equation='ij,ij->i')\noutput(y)",
    )
