from collections.abc import Callable

from palmkit.engine.ir import Graph
from palmkit.engine.passes.remove_dead_code import remove_dead_code


def test_chains_and_constants_leave(becomes: Callable[..., Graph]) -> None:
    graph = becomes(
        remove_dead_code,
        """
        x = input(4)
        unused = input(7)
        w = random(4)
        a = add(x, w)
        b = relu(a)
        c = relu(unused)
        y = relu(x)
        output(y)
        """,
        "y = relu(x)",
    )
    assert not graph.constants
    assert list(graph.inputs) == ["x", "unused"]


def test_one_of_many_outputs_is_enough(stays: Callable[..., None]) -> None:
    stays(
        remove_dead_code,
        """
        x = input(4, 2)
        a, b = split(x, axis=0, num_outputs=2)
        output(b)
        """,
    )
