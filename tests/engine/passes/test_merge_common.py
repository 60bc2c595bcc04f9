from collections.abc import Callable

from palmkit.engine.ir import Graph
from palmkit.engine.passes.merge_common import merge_common


def test_the_same_node_and_constant_twice(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_common,
        """
        x = input(4)
        p = float32([1.0, 2.0, 3.0, 4.0])
        q = float32([1.0, 2.0, 3.0, 4.0])
        a = add(x, p)
        b = add(x, q)
        y = mul(a, b)
        output(y)
        """,
        """
        a = add(x, p)
        y = mul(a, a)
        """,
    )


def test_all_outputs_of_a_node(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_common,
        """
        x = input(4)
        a, b = split(x, axis=0, num_outputs=2)
        c, d = split(x, axis=0, num_outputs=2)
        y = mul(a, d)
        output(y)
        """,
        """
        a, b = split(x, axis=0, num_outputs=2)
        y = mul(a, b)
        """,
    )


def test_two_outputs_of_the_graph_stay_two(becomes: Callable[..., Graph]) -> None:
    becomes(
        merge_common,
        """
        x = input(4)
        y = relu(x)
        z = relu(x)
        output(y, z)
        """,
        """
        y = relu(x)
        z = identity(y)
        """,
    )


def test_other_attributes_or_dtypes_are_others(stays: Callable[..., None]) -> None:
    stays(
        merge_common,
        """
        x = input(2, 2)
        p = float32([1.0])
        q = int64(1)
        a = softmax(x, axis=0)
        b = softmax(x, axis=1)
        y = add(a, b)
        z = add(x, p)
        r = unsqueeze(x, q)
        output(y, z, r)
        """,
    )
