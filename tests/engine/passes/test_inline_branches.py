from collections.abc import Callable
from textwrap import dedent

import numpy as np
import pytest

from palmkit.engine.ir import Graph, Node, Type, check
from palmkit.engine.passes import optimise
from palmkit.engine.passes.inline_branches import inline_branches

THEN = """
    a = input(2, 3)
    c = input(3)
    two = float32(2.0)
    h = relu(a)
    y = mul(h, two)
    output(y, c)
"""
ELSE = """
    a = input(2, 3)
    c = input(3)
    y = neg(a)
    z = neg(c)
    output(y, z)
"""


@pytest.fixture
def choice(text: Callable[[str], Graph]) -> Callable[[bool | None], Graph]:
    """A graph with an `if`: of a constant condition, or of one that is an input."""

    def make(condition: bool | None) -> Graph:
        outer = text("x = input(2, 3)\nh = relu(x)\noutput(h)")
        branches = {"then_branch": text(THEN), "else_branch": text(ELSE)}
        chosen = Node("if", ("cond", "h", "w"), ("y", "z"), {**branches, "captures": 2})
        inputs = {} if condition is not None else {"cond": Type("bool", ())}
        constants = {"w": np.array([1, -2, 3], np.float32)}
        if condition is not None:
            constants["cond"] = np.array(condition)
        outputs = {"y": Type("float32", (2, 3)), "z": Type("float32", (3,))}
        graph = Graph({**outer.inputs, **inputs}, outputs, (*outer.nodes, chosen), constants)
        check(graph)
        return graph

    return make


@pytest.mark.parametrize(
    ("condition", "after"),
    [
        (
            True,
            """
            h = relu(x)
            y.h = relu(h)
            y = mul(y.h, y.two)
            z = identity(w)
            """,
        ),
        (
            False,
            """
            h = relu(x)
            y = neg(h)
            z = neg(w)
            """,
        ),
    ],
)
def test_a_constant_condition(
    choice: Callable[[bool | None], Graph],
    same_numbers: Callable[[Graph, Graph], None],
    condition: bool,
    after: str,
) -> None:
    graph = choice(condition)
    changed = inline_branches(graph)
    assert "\n".join(map(str, changed.nodes)) == dedent(after).strip()
    same_numbers(graph, changed)
    same_numbers(graph, optimise(graph))


def test_a_computed_condition_stays(choice: Callable[[bool | None], Graph]) -> None:
    graph = choice(None)
    assert inline_branches(graph) is graph
