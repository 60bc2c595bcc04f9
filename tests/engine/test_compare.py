"""Faults are planted in each stage, and have to be found and called by their name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import ops, passes
from palmkit.engine.backends.cpu.rules import RULES
from palmkit.engine.compare import STAGES, Comparison, compare, difference
from palmkit.engine.errors import BackendError, UnsupportedError
from palmkit.engine.files import convert
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.sources import Source, open_source

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

random = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return random.normal(size=shape).astype(np.float32)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """conv, sigmoid, max_pool, conv, tanh and a matrix; y is 1 x 5."""
    helper = onnx.helper
    weights = {"w1": normal(6, 3, 3, 3), "w2": normal(4, 6, 1, 1), "m": normal(64, 5)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["a"], ["b"], name="gate"),
        helper.make_node("MaxPool", ["b"], ["c"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "w2"], ["d"], name="second"),
        helper.make_node("Tanh", ["d"], ["e"], name="squash"),
        helper.make_node("Flatten", ["e"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="matrix"),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", float32, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", float32, [1, 5])],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path_factory.mktemp("compare") / "net.onnx"
    onnx.save(model, str(path))
    return path


def inputs(count: int = 2) -> list[dict[str, Array]]:
    return [{"x": normal(1, 3, 8, 8)} for _ in range(count)]


def checked(file: Path, graph: Graph | None = None, **options: Any) -> Comparison:
    plain = convert(file)
    return compare(graph or plain, plain, open_source(file), inputs(), **options)


def test_a_model_agrees_with_its_source(file: Path) -> None:
    steps: list[str] = []
    found = checked(file, report=steps.append)
    assert found.agrees and found.fault is None and found.notes == ()
    assert (found.source, found.runs, list(found.errors)) == ("ONNX Runtime", 2, ["y"])
    assert list(found.stages) == list(STAGES)
    assert max(found.stages.values()) < 1e-5
    assert steps[:2] == ["run 1", "run 2"]


def test_a_wrong_weight_is_the_files_fault(file: Path) -> None:
    graph = convert(file)
    wrong = graph.constants["w2"].copy()
    wrong[2, 3] += 0.5
    found = checked(file, replace(graph, constants={**graph.constants, "w2": wrong}))
    assert not found.agrees and found.fault is not None
    fault = found.fault
    assert (fault.stage, fault.op, fault.name, fault.value) == ("file", "conv", "second", "d")
    errors = {operand.name: operand.error for operand in fault.operands}
    assert errors["w2"] is not None and errors["w2"] > 0.05 and errors["c"] == 0
    assert found.stages["plain"] < 1e-5 < 1e-3 < found.stages["file"]


def test_an_op_with_a_wrong_meaning(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ops.find("max_pool")

    def wrong(x: Array, **attrs: Any) -> Any:
        y, places = right.reference(x, **attrs)
        return y + np.float32(0.01), places

    monkeypatch.setitem(ops.registry(), "max_pool", replace(right, reference=wrong))
    fault = checked(file).fault
    assert fault is not None
    assert (fault.stage, fault.op, fault.name, fault.value) == ("plain", "max_pool", "pool", "c")
    assert fault.blamed.startswith("the converter, or the meaning of the op")
    assert "kernel_shape=(2, 2)" in fault.node
    (operand,) = fault.operands
    assert (operand.name, operand.type) == ("b", "float32[1, 6, 8, 8]")
    assert 0 <= operand.low < operand.high <= 1


def test_a_converter_that_drops_an_attribute(file: Path) -> None:
    plain = convert(file)
    nodes = tuple(
        replace(node, op="softsign") if node.op == "tanh" else node for node in plain.nodes
    )
    wrong = plain.with_nodes(nodes)
    found = compare(wrong, wrong, open_source(file), inputs())
    assert found.fault is not None
    assert (found.fault.stage, found.fault.name) == ("plain", "squash")


def test_a_pass_that_breaks_the_graph(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_sigmoid(graph: Graph) -> Graph:
        nodes = (replace(n, op="tanh") if n.op == "sigmoid" else n for n in graph.nodes)
        return graph.with_nodes(tuple(nodes))

    pipeline = list(passes.PIPELINE)
    pipeline.insert(5, break_sigmoid)
    monkeypatch.setattr(passes, "PIPELINE", tuple(pipeline))
    fault = checked(file).fault
    assert fault is not None
    assert (fault.stage, fault.graph_pass, fault.op) == ("optimised", "break_sigmoid", "tanh")
    assert (fault.name, fault.blamed) == ("gate", "the graph pass break_sigmoid")


def test_a_wrong_kernel(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES["max_pool"]

    def smaller(lowering: Any, node: Node) -> None:
        right(lowering, replace(node, op="average_pool"))

    monkeypatch.setitem(RULES, "max_pool", smaller)
    fault = checked(file).fault
    assert fault is not None
    assert (fault.stage, fault.op, fault.name) == ("cpu", "max_pool", "pool")
    assert fault.blamed == "a kernel of backend cpu"


def test_an_error_that_only_grows(file: Path) -> None:
    """Rounding is under any tolerance at one node, and is not blamed on one."""
    plain = convert(file)
    rounded = {
        name: (value * np.float32(1 + 2e-5)).astype(np.float32)
        for name, value in plain.constants.items()
    }
    found = checked(file, replace(plain, constants=rounded), tolerance=2.5e-5, absolute=0)
    assert found.fault is not None
    assert (found.fault.stage, found.fault.grows) == ("file", True)
    assert any(operand.error and operand.error > 1e-5 for operand in found.fault.operands)


def test_rounding_that_a_node_makes_larger(tmp_path: Path) -> None:
    """The variance of nearly equal numbers, as the mean of squares less the square of the mean."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="sums"),
        helper.make_node("Mul", ["c", "c"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["a"], axes=[1], keepdims=1),
        helper.make_node("ReduceMean", ["c"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Mul", ["mean", "mean"], ["b"]),
        helper.make_node("Sub", ["a", "b"], ["y"], name="cancelling"),
    ]
    # Many sums of 64 products that are all about 1: what is left of them is rounding.
    weight = np.ones((8, 64, 1, 1), np.float32) + 1e-4 * normal(8, 64, 1, 1)
    info, float32 = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [info("x", float32, [1, 64, 9, 9])],
        [info("y", float32, [1, 1, 9, 9])],
        [onnx.numpy_helper.from_array(weight.astype(np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "net.onnx"))
    plain = convert(tmp_path / "net.onnx")
    x = {"x": (1 + 0.1 * normal(1, 64, 9, 9)).astype(np.float32)}
    fault = compare(plain, plain, open_source(tmp_path / "net.onnx"), [x], absolute=0).fault
    assert fault is not None and fault.grows
    assert (fault.op, fault.name) == ("sub", "cancelling")
    assert all(o.error is not None and o.error < 1e-4 < fault.error for o in fault.operands)


def test_without_an_engine_for_the_source(file: Path) -> None:
    plain = convert(file)

    class Refusing:
        name = "Refusing Engine"

        def values(
            self, inputs: Mapping[str, Array], names: Sequence[str] | None
        ) -> dict[str, Array]:
            raise BackendError("Refusing Engine cannot run it: no such operator")

    refusing: Source = Refusing()
    found = compare(plain, plain, refusing, inputs())
    assert found.agrees and found.source == "reference"
    assert found.notes == (
        "Refusing Engine cannot run it: no such operator; compared with our own reference instead",
    )
    assert "plain" not in found.stages


def test_random_numbers_cannot_be_compared() -> None:
    type = Type("float32", (2,))
    graph = Graph({"x": type}, {"y": type}, (Node("random_normal_like", ("x",), ("y",)),))
    with pytest.raises(UnsupportedError, match="random numbers: random_normal_like"):
        compare(graph, graph, None, [{"x": np.zeros(2, np.float32)}])


@pytest.mark.parametrize(
    ("expected", "actual", "error"),
    [
        ([0, 1, 2], [0, 1, 2.5], 0.25),
        ([3, 3], [3, 3.3], 0.1),
        ([0, 0], [0, 0.5], 0.5),
        ([0, np.nan, 2], [0, np.nan, 2], 0),
        ([0, np.nan, 2], [0, 1, 2], np.inf),
        ([0, 1, 2], [0, np.nan, 2], np.inf),
        ([0, np.inf], [0, -np.inf], np.inf),
        ([], [], 0),
        ([1, 2], [1, 2, 3], np.inf),
    ],
)
def test_difference(expected: list[float], actual: list[float], error: float) -> None:
    assert difference(np.array(expected), np.array(actual)) == pytest.approx(error)


def test_a_difference_that_counts_as_none() -> None:
    """The output of a sigmoid near zero differs by rounding only."""
    expected, actual = np.linspace(0, 1e-7, 32), np.linspace(0, 2e-7, 32)
    assert difference(expected, actual) == pytest.approx(1)
    assert difference(expected, actual, absolute=5e-7) == 0
    assert difference(expected, actual + 1, absolute=5e-7) > 1e6


def test_integers_and_booleans_differ_too() -> None:
    assert difference(np.array([0, 10]), np.array([0, 9])) == pytest.approx(0.1)
    assert difference(np.array([True, False]), np.array([True, True])) == 1


def test_the_source_takes_other_sizes_and_gives_inner_values(file: Path) -> None:
    source = open_source(file)
    assert source is not None
    found = source.values({"x": normal(1, 3, 8, 8)}, ["c", "y", "nothing"])
    assert {name: value.shape for name, value in found.items()} == {"c": (1, 6, 4, 4), "y": (1, 5)}
    with pytest.raises(BackendError, match="ONNX Runtime cannot run it"):
        source.values({"x": normal(1, 4, 8, 8)}, None)
