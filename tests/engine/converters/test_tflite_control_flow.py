"""Graphs that a TFLite file's operators call: branches, loops, calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    ModelFile,
    assert_agrees,
    flexbuffers,
    floats,
    interpreter_module,
    litert,
    run,
)


def unary(file: ModelFile, op: str, dims: tuple[int, ...] = (2, 3)) -> None:
    """A graph of one operator from a to b."""
    other = file.graph()
    other.input("a", dims)
    other.tensor("b", dims)
    other.operator(op, ["a"], ["b"])
    other.outputs = ["b"]


def branches() -> ModelFile:
    file = ModelFile()
    file.input("condition", (1,), "bool")
    file.input("x", (2, 3))
    file.tensor("y", (2, 3))
    unary(file, "NEG")
    unary(file, "EXP")
    file.operator(
        "IF", ["condition", "x"], ["y"], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2
    )
    return file


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool) -> None:
    model = branches().pack(["y"])
    inputs = {"condition": np.array([condition]), "x": floats(2, 3)}
    wanted = litert(model, inputs)
    assert_agrees(convert(model), inputs, wanted)
    assert_agrees(optimise(convert(model)), inputs, wanted)


def loop(limit: float, grows: bool = False) -> ModelFile:
    """While the sum of x is less than the limit: x = x + 1, or x twice behind itself."""
    file = ModelFile()
    file.input("turns", (1,))
    file.input("x", (2, 3))
    file.tensor("count", (1,))
    file.tensor("y", (2, 3))
    condition = file.graph()
    condition.input("c_turns", (1,))
    condition.input("c_x", (-1, 3) if grows else (2, 3))
    condition.tensor("c_limit", np.array([limit], np.float32))
    condition.tensor("c_less", (1,), "bool")
    condition.operator("LESS", ["c_turns", "c_limit"], ["c_less"], "LessOptions")
    condition.outputs = ["c_less"]
    body = file.graph()
    body.input("b_turns", (1,))
    body.input("b_x", (-1, 3) if grows else (2, 3))
    body.tensor("one", np.ones(1, np.float32))
    body.tensor("b_count", (1,))
    body.tensor("b_y", (-1, 3) if grows else (2, 3))
    body.operator("ADD", ["b_turns", "one"], ["b_count"], "AddOptions")
    if grows:
        body.operator("CONCATENATION", ["b_x", "b_x"], ["b_y"], "ConcatenationOptions", axis=0)
    else:
        body.operator("ADD", ["b_x", "one"], ["b_y"], "AddOptions")
    body.outputs = ["b_count", "b_y"]
    file.operator(
        "WHILE", ["turns", "x"], ["count", "y"], "WhileOptions", condSubgraphIndex=1,
        bodySubgraphIndex=2,
    )  # fmt: skip
    return file


@pytest.mark.parametrize("limit", [0.0, 1.0, 7.0])
def test_while(limit: float) -> None:
    model = loop(limit).pack(["count", "y"])
    inputs = {"turns": np.zeros(1, np.float32), "x": floats(2, 3)}
    wanted = litert(model, inputs)
    assert wanted["count"] == limit
    assert_agrees(convert(model), inputs, wanted)
    assert_agrees(optimise(convert(model)), inputs, wanted)


def test_a_loop_may_change_shapes() -> None:
    graph = convert(loop(3.0, grows=True).pack(["count", "y"]))
    x = floats(2, 3)
    got = run(graph, {"turns": np.zeros(1, np.float32), "x": x})
    np.testing.assert_array_equal(got["y"], np.concatenate([x] * 8))


@pytest.mark.parametrize(
    ("op", "options", "field"),
    [
        ("CALL", "CallOptions", "subgraph"),
        ("STABLEHLO_COMPOSITE", "StableHLOCompositeOptions", "decompositionSubgraphIndex"),
    ],
)
def test_calls_are_inlined(op: str, options: str, field: str) -> None:
    file = ModelFile()
    file.input("x", (2, 3))
    file.tensor("middle", (2, 3))
    file.tensor("y", (2, 3))
    unary(file, "NEG")
    unary(file, "EXP")
    more: dict[str, Any] = {}
    if op == "STABLEHLO_COMPOSITE":
        attributes = np.frombuffer(flexbuffers.Dumps({"k": 1}), np.uint8)
        more = {"name": b"some", "compositeAttributes": attributes}
    file.operator(op, ["x"], ["middle"], options, **{field: 1}, **more)
    file.operator(op, ["middle"], ["y"], options, **{field: 2}, **more)
    model, inputs = file.pack(["y"]), {"x": floats(2, 3)}
    wanted = {"y": np.exp(-inputs["x"])} if op == "CALL" else litert(model, inputs)
    graph = convert(model)
    assert_agrees(graph, inputs, wanted)
    assert [node.op for node in graph.nodes if node.op != "identity"] == ["neg", "exp"]


def test_a_graph_that_calls_itself_is_refused() -> None:
    file = ModelFile()
    file.input("x", (2, 3))
    file.tensor("y", (2, 3))
    other = file.graph()
    other.input("a", (2, 3))
    other.tensor("b", (2, 3))
    other.operator("CALL", ["a"], ["b"], "CallOptions", subgraph=1)
    other.outputs = ["b"]
    file.operator("CALL", ["x"], ["y"], "CallOptions", subgraph=1)
    with pytest.raises(ModelError, match="graph 1 calls itself"):
        convert(file.pack(["y"]))


def test_calls_that_double_at_each_level_are_refused() -> None:
    """Each of 20 graphs calls the next one twice: a million copies of the last."""
    file = ModelFile()
    file.input("x", (2, 3))
    file.tensor("y", (2, 3))
    for number in range(1, 21):
        other = file.graph()
        other.input("a", (2, 3))
        other.tensor("b", (2, 3))
        other.tensor("c", (2, 3))
        if number == 20:
            other.operator("NEG", ["a"], ["c"])
        else:
            for source, target in (("a", "b"), ("b", "c")):
                other.operator("CALL", [source], [target], "CallOptions", subgraph=number + 1)
        other.outputs = ["c"]
    file.operator("CALL", ["x"], ["y"], "CallOptions", subgraph=1)
    with pytest.raises(ModelError, match="more than 256 bodies"):
        convert(file.pack(["y"]))


def test_a_graph_that_is_not_there_is_refused() -> None:
    file = branches()
    file.operators[0].builtinOptions.elseSubgraphIndex = 9
    with pytest.raises(ModelError, match="no graph of number 9"):
        convert(file.pack(["y"]))


def test_operators_without_a_rule_are_listed_from_all_graphs() -> None:
    file = branches()
    file.graphs[0].operators.clear()
    file.graphs[0].operator("Unheard", ["a"], ["b"], custom=b"")
    file.graphs[1].operators.clear()
    file.graphs[1].operator("Of", ["a"], ["b"], custom=b"")
    with pytest.raises(UnsupportedError, match=r"custom Of \(1: b\); custom Unheard \(1: b\)"):
        convert(file.pack(["y"]))


def variable(name: bytes, changes: bool = False) -> ModelFile:
    """y = x + a variable that another graph sets once; changes: and y is what it is then."""
    file = ModelFile()
    file.input("x", (2, 3))
    file.tensor("handle", (), "resource")
    file.tensor("value", (2, 3) if changes else (3,))
    file.tensor("y", (2, 3))
    initial = file.graph()
    initial.tensor("other_handle", (), "resource")
    initial.tensor("start", np.zeros((2, 3), np.float32) if changes else floats(3))
    initial.operator("VAR_HANDLE", [], ["other_handle"], "VarHandleOptions", sharedName=b"weight")
    initial.operator("ASSIGN_VARIABLE", ["other_handle", "start"], [], "AssignVariableOptions")
    file.operator("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    file.operator("VAR_HANDLE", [], ["handle"], "VarHandleOptions", sharedName=name)
    file.operator("READ_VARIABLE", ["handle"], ["value"], "ReadVariableOptions")
    file.operator("ADD", ["x", "value"], ["y"], "AddOptions")
    if changes:
        file.operator("ASSIGN_VARIABLE", ["handle", "y"], [], "AssignVariableOptions")
    return file


def test_a_variable_that_is_set_once_is_a_constant() -> None:
    model, inputs = variable(b"weight").pack(["y"]), {"x": floats(2, 3)}
    graph = convert(model)
    assert_agrees(graph, inputs, litert(model, inputs))
    assert [node.op for node in graph.nodes] == ["add"]


def test_a_variable_that_is_never_set_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="node value: variable unknown is never set"):
        convert(variable(b"unknown").pack(["y"]))


def test_a_variable_that_a_run_assigns_is_an_input_and_an_output() -> None:
    """The sum of all inputs so far, as LiteRT keeps it from run to run."""
    graph = convert(variable(b"weight", changes=True).pack(["y"]))
    assert list(graph.inputs) == ["x", "handle"]
    assert list(graph.outputs) == ["y", "handle/next"]
    assert graph.metadata == {"state handle": "first [0.0], then handle/next"}
    model = variable(b"weight", changes=True).pack(["y"])
    interpreter = interpreter_module.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    state = np.zeros((2, 3), np.float32)
    for _ in range(4):
        x = floats(2, 3)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
        interpreter.invoke()
        got = run(graph, {"x": x, "handle": state})
        wanted = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(got["y"], wanted)
        state = got["handle/next"]
        np.testing.assert_array_equal(state, wanted)


def test_a_variable_that_a_branch_changes_is_refused() -> None:
    file = branches()
    branch = file.graphs[0]
    branch.tensor("handle", (), "resource")
    branch.operator("VAR_HANDLE", [], ["handle"], "VarHandleOptions", sharedName=b"weight")
    branch.operator("ASSIGN_VARIABLE", ["handle", "a"], [], "AssignVariableOptions")
    with pytest.raises(UnsupportedError, match="ASSIGN_VARIABLE of a handle from elsewhere"):
        convert(file.pack(["y"]))
