from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from palmkit.engine.ir import Graph, Node, Type
from palmkit.engine.ops import Case, find, infer_types
from palmkit.engine.passes.write_out_attention import write_out_attention

CASES = find("attention").cases


def graph_of(case: Case) -> Graph:
    """One node over the case's inputs."""
    names = tuple("" if x is None else f"x{i}" for i, x in enumerate(case.inputs))
    node = Node("attention", names, tuple(f"y{i}" for i in range(case.outputs)), case.attrs)
    given = [(n, x) for n, x in zip(names, case.inputs, strict=True) if x is not None]
    inputs = {name: x for name, x in given if isinstance(x, Type)}
    constants = {name: x for name, x in given if not isinstance(x, Type)}
    types = infer_types(Graph(inputs, {}, (node,), constants))
    outputs = {name: Type(types[name].dtype, types[name].shape) for name in node.outputs}
    return Graph(inputs, outputs, (node,), constants)


def is_written_out(case: Case) -> bool:
    lengths = len(case.inputs) > 6 and case.inputs[6] is not None
    return not lengths and "left_window_size" not in case.attrs and case.outputs < 4


@pytest.mark.parametrize("place", range(len(CASES)))
def test_every_case(same_numbers: Callable[..., None], place: int) -> None:
    graph = graph_of(CASES[place])
    changed = write_out_attention(graph)
    assert ("attention" not in {node.op for node in changed.nodes}) == is_written_out(CASES[place])
    same_numbers(graph, changed)


def test_a_row_without_keys_is_zeros(same_numbers: Callable[..., None]) -> None:
    mask = np.array([[0, 0, -1], [-np.inf] * 3], np.float32)
    shape = Type("float32", (1, 2, 2, 4))
    key = Type("float32", (1, 2, 3, 4))
    attrs: dict[str, Any] = {"is_causal": 1}
    for each in (Case((shape, key, key, mask)), Case((shape, key, key, mask), attrs)):
        same_numbers(graph_of(each), write_out_attention(graph_of(each)))


def test_plain_attention(becomes: Callable[..., Graph]) -> None:
    becomes(
        write_out_attention,
        """
        q = input(1, 2, 3, 4)
        k = input(1, 2, 5, 4)
        v = input(1, 2, 5, 6)
        y = attention(q, k, v)
        output(y)
        """,
        """
        y.mul = mul(q, y.scale)
        y.transpose = transpose(k, perm=(0, 1, 3, 2))
        y.matmul = matmul(y.mul, y.transpose)
        y.softmax = softmax(y.matmul, axis=-1)
        y = matmul(y.softmax, v)
        """,
    )
