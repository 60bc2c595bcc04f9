"""Small graphs as text, and checks of passes on them."""

import ast
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.ir import Array, Graph, Node, Type, check
from palmkit.engine.ops import infer_types
from palmkit.engine.passes.remove_dead_code import remove_dead_code

Pass = Callable[[Graph], Graph]


def parse(text: str) -> Graph:
    """The graph that some lines of Python-like text describe.

    x = input(1, 3, 8, 8)      a graph input, float32; a string is a symbolic dim
    q = input(1, 3, 8, 8, dtype="uint8")    one of another dtype
    w = random(4, 3, 3, 3)     a constant, float32, seeded by its name; levels(...): int8
    p = int64(0, 0, 1, 1)      a constant of these numbers, a vector
    s = float32(0.5)           the same, but one number is []; uint8(...) and int8(...) likewise
    y = conv(x, w, strides=(2, 2))     a node; _ is an input left out
    output(y)
    """
    inputs: dict[str, Type] = {}
    constants: dict[str, Array] = {}
    nodes: list[Node] = []
    outputs: list[str] = []
    for statement in ast.parse(dedent(text)).body:
        assert isinstance(statement, ast.Assign | ast.Expr)
        call = statement.value
        assert isinstance(call, ast.Call)
        op = ast.unparse(call.func).removesuffix("_")
        if isinstance(statement, ast.Expr):
            outputs = [ast.unparse(arg) for arg in call.args]
            continue
        names = tuple(ast.unparse(statement.targets[0]).strip("()").split(", "))
        if op in ("input", "random", "levels", "int64", "float32", "uint8", "int8"):
            numbers: tuple[Any, ...] = tuple(ast.literal_eval(arg) for arg in call.args)
            if op == "input":
                given = (ast.literal_eval(each.value) for each in call.keywords)
                inputs[names[0]] = Type(next(given, "float32"), numbers)
            elif op in ("random", "levels"):
                random = np.random.default_rng(sum(map(ord, names[0])))
                values = random.normal(size=numbers) * (40 if op == "levels" else 1)
                constants[names[0]] = values.astype(np.int8 if op == "levels" else np.float32)
            else:
                value = numbers[0] if len(numbers) == 1 and op != "int64" else numbers
                constants[names[0]] = np.array(value, op)
            continue
        reads = tuple("" if ast.unparse(arg) == "_" else ast.unparse(arg) for arg in call.args)
        attrs = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        nodes.append(Node(op, reads, names, attrs))
    graph = Graph(inputs, dict.fromkeys(outputs, Type("float32", ())), tuple(nodes), constants)
    types = infer_types(graph)
    known = {
        name: Type(types[name].dtype, types[name].shape) if name in types else type
        for name, type in graph.outputs.items()
    }
    graph = Graph(inputs, known, graph.nodes, constants)
    check(graph)
    return graph


def run(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Return the outputs, by the ops' numpy meaning."""
    return Reference().compile(graph).run(inputs)


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Return numbers for every input; 2 stands for a symbolic dim."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, type in graph.inputs.items():
        dims = [dim if isinstance(dim, int) else 2 for dim in type.shape]
        if type.dtype == "float32":
            found[name] = rng.normal(size=dims).astype(np.float32)
        else:
            least, most = np.iinfo(type.dtype).min, np.iinfo(type.dtype).max
            found[name] = rng.integers(least, most, dims, type.dtype, endpoint=True)
    return found


def assert_same_numbers(before: Graph, after: Graph, seed: int = 0) -> None:
    """Check that both graphs give the same outputs, up to rounding."""
    check(after)
    inputs = random_inputs(before, seed)
    wanted, got = run(before, inputs), run(after, inputs)
    assert list(got) == list(wanted)
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape
        margin = 1e-5 * max(1.0, float(np.abs(value).max(initial=0)))
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=margin, err_msg=name)


def assert_becomes(change: Pass, before: str, after: str) -> Graph:
    """Check that the pass turns nodes `before` into `after` with the same numbers."""
    graph = parse(before)
    changed = change(graph)
    assert "\n".join(map(str, changed.nodes)) == dedent(after).strip()
    assert_same_numbers(graph, changed)
    assert set(changed.constants) <= {name for node in changed.nodes for name in node.inputs} | set(
        changed.outputs
    )
    return changed


def assert_stays(change: Pass, text: str) -> None:
    """Check that the pass leaves the graph as it is, except for unread nodes."""
    graph = parse(text)
    assert remove_dead_code(change(graph)).nodes == remove_dead_code(graph).nodes


@pytest.fixture
def becomes() -> Callable[[Pass, str, str], Graph]:
    return assert_becomes


@pytest.fixture
def stays() -> Callable[[Pass, str], None]:
    return assert_stays


@pytest.fixture
def text() -> Callable[[str], Graph]:
    return parse


@pytest.fixture
def same_numbers() -> Callable[[Graph, Graph, int], None]:
    return assert_same_numbers
