import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.ir import Graph, Node, Type

X = Type("float32", (3,))
INPUT = np.array([-1, 0, 2], np.float32)


def graph(*nodes: Node, outputs: tuple[str, ...] = ("y",)) -> Graph:
    return Graph({"x": X}, dict.fromkeys(outputs, X), nodes, {"c": np.ones(3, np.float32)})


def test_outputs_are_arrays_of_their_own() -> None:
    whole = graph(Node("identity", ("x",), ("y",)), outputs=("y", "x", "c"))
    outputs = Reference().compile(whole).run({"x": INPUT})
    for y in outputs.values():
        y += 1
    np.testing.assert_array_equal(INPUT, [-1, 0, 2])
    np.testing.assert_array_equal(whole.constants["c"], 1)
    np.testing.assert_array_equal(outputs["y"], [0, 1, 3])


def test_value_is_kept_until_its_last_reader() -> None:
    nodes = (
        Node("relu", ("x",), ("a",)),
        Node("add", ("a", "c"), ("b",)),
        Node("mul", ("a", "b"), ("y",)),
        Node("neg", ("y",), ("unread",)),
    )
    program = Reference().compile(graph(*nodes))
    assert program.last_uses == (("x",), ("c",), ("a", "b"), ("unread",))
    np.testing.assert_array_equal(program.run({"x": INPUT})["y"], [0, 0, 6])


def test_profile_times_every_node() -> None:
    nodes = (Node("relu", ("x",), ("a",), name="first"), Node("neg", ("a",), ("y",)))
    times = Reference().compile(graph(*nodes)).profile({"x": INPUT})
    assert [(time.node, time.op) for time in times] == [("first", "relu"), ("y", "neg")]
    assert all(time.seconds > 0 for time in times)


def test_every_unknown_op_is_named_at_once() -> None:
    nodes = (Node("magic", ("x",), ("a",), name="first"), Node("spell", ("a",), ("y",)))
    with pytest.raises(UnsupportedError, match=r"does not know: first \(magic\), y \(spell\)"):
        Reference().compile(graph(*nodes))
