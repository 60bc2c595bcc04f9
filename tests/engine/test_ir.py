import numpy as np
import pytest

from palmkit.engine.errors import ModelError
from palmkit.engine.ir import (
    Graph,
    Known,
    Node,
    Type,
    check,
    consumers,
    fresh_name,
    producers,
    value_names,
)

X = Type("float32", (2, "width"))
RELU = Node("relu", ("x",), ("y",))
ADD = Node("add", ("y", "c"), ("z",))
C = np.ones(1, np.float32)


def graph(*nodes: Node, outputs: tuple[str, ...] = ("z",)) -> Graph:
    return Graph({"x": X}, dict.fromkeys(outputs, X), nodes, {"c": C})


def test_type_reads_as_in_docstrings() -> None:
    assert str(X) == "float32[2, width]"
    assert str(Type.of(np.zeros((), np.int64))) == "int64[]"


def test_static_type_knows_its_size() -> None:
    type = Type("float16", (2, 3))
    assert type.is_static and type.elements == 6 and type.size_bytes == 12
    assert not X.is_static
    with pytest.raises(ModelError, match=r"dims are not known yet: float32\[2, width\]"):
        _ = X.dims


def test_known_carries_the_value() -> None:
    known = Known.of(C)
    assert known.value is C and str(known) == "float32[1]"


def test_whole_graph_passes_and_reads_as_text() -> None:
    whole = graph(RELU, ADD)
    check(whole)
    assert str(whole).splitlines() == [
        "input x: float32[2, width]",
        "constant c: float32[1]",
        "y = relu(x)",
        "z = add(y, c)",
        "output z: float32[2, width]",
    ]


def test_optional_values_may_be_left_out() -> None:
    check(graph(Node("clip", ("x", "", "c"), ("z", ""))))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph(ADD, RELU), "add : reads a value nobody writes: y"),
        (graph(RELU, RELU, ADD), "relu : value is written twice: y"),
        (graph(RELU, ADD, Node("relu", ("x",), ("c",))), "value is written twice: c"),
        (graph(RELU, ADD, outputs=("w",)), "output is written by nobody: w"),
        (Graph({"c": X}, {}, (), {"c": C}), "both an input and a constant: c"),
        (Graph({"x": Type("float31", ())}, {}, ()), "value x: unknown dtype: float31"),
    ],
)
def test_broken_graph_is_refused(broken: Graph, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        check(broken)


def test_producers_and_consumers() -> None:
    whole = graph(RELU, ADD)
    assert producers(whole) == {"y": RELU, "z": ADD}
    assert consumers(whole) == {"x": [RELU], "y": [ADD], "c": [ADD]}


def test_fresh_name_is_new_and_taken() -> None:
    names = value_names(graph(RELU, ADD))
    assert names == {"x", "c", "y", "z"}
    assert [fresh_name(names, "y"), fresh_name(names, "y"), fresh_name(names, "new")] == [
        "y.1",
        "y.2",
        "new",
    ]
