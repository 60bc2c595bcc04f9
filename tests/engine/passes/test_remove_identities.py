from collections.abc import Callable

import pytest

from palmkit.engine.ir import Graph
from palmkit.engine.passes.remove_identities import remove_identities


@pytest.mark.parametrize(
    "node",
    [
        "identity(a)",
        'cast(a, to="float32")',
        "transpose(a, perm=(0, 1, 2, 3))",
        "reshape(a, same)",
        "expand(a, ones)",
        "tile(a, ones)",
        "pad(a, zeros)",
        "slice(a, starts, ends)",
        "concat(a, axis=1)",
        "add(a, zero)",
        "mul(a, one)",
        "div(a, one)",
        "sub(a, zero)",
        "clip(a)",
        "max(a)",
        "max_pool(a, kernel_shape=(1, 1))",
        'resize(a, _, _, same, mode="linear")',
    ],
)
def test_leaves(becomes: Callable[..., Graph], node: str) -> None:
    becomes(
        remove_identities,
        f"""
        x = input(1, 3, 4, 5)
        same = int64(1, 3, 4, 5)
        ones = int64(1, 1, 1, 1)
        zeros = int64(0, 0, 0, 0, 0, 0, 0, 0)
        starts = int64(0, 0)
        ends = int64(1, 9)
        zero = float32(0.0)
        one = float32(1.0)
        a = relu(x)
        b = {node}
        y = neg(b)
        output(y)
        """,
        """
        a = relu(x)
        y = neg(a)
        """,
    )


@pytest.mark.parametrize(
    "node",
    [
        'cast(a, to="int32")',
        "transpose(a, perm=(1, 0))",
        "reshape(a, other)",
        "slice(a, starts, ends, axes, steps)",
        "add(a, row)",
        "mul(a, row)",
        "max_pool(c, kernel_shape=(1, 1), strides=(2, 2))",
    ],
)
def test_stays(stays: Callable[..., None], node: str) -> None:
    stays(
        remove_identities,
        f"""
        x = input(2, 2)
        image = input(1, 1, 2, 2)
        other = int64(4, 1)
        starts = int64(-1)
        ends = int64(-9)
        axes = int64(0)
        steps = int64(-1)
        row = float32([[0.0, 1.0]])
        a = relu(x)
        c = relu(image)
        y = {node}
        output(y, c, a)
        """,
    )


def test_an_output_keeps_its_name(becomes: Callable[..., Graph]) -> None:
    becomes(
        remove_identities,
        """
        x = input(4)
        a = relu(x)
        y = identity(a)
        z = neg(a)
        output(z, y)
        """,
        """
        y = relu(x)
        z = neg(y)
        """,
    )


def test_an_input_that_is_an_output_keeps_its_node(stays: Callable[..., None]) -> None:
    stays(
        remove_identities,
        """
        x = input(4)
        y = identity(x)
        output(y)
        """,
    )


def test_two_names_of_one_output_stay(stays: Callable[..., None]) -> None:
    stays(
        remove_identities,
        """
        x = input(4)
        y = relu(x)
        z = identity(y)
        output(y, z)
        """,
    )
