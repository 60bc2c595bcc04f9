import json
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.backends.cpu.rules import RULES
from palmkit.engine.ir import Graph, Node, Type
from palmkit.engine.operators import RENDERED, Operator, Table, numpy_nodes, table
from palmkit.engine.ops import registry

DOCUMENT = Path(__file__).parents[2] / "engine" / "OPS.md"


@pytest.fixture(scope="module")
def found() -> Table:
    pytest.importorskip("onnx")
    pytest.importorskip("tflite")
    return table()


def named(table: Table, op: str) -> Operator:
    return next(each for each in table.operators if each.op == op)


def test_every_op_is_there_once(found: Table) -> None:
    assert [each.op for each in found.operators] == sorted(registry())
    assert {each.op for each in found.operators if each.cpu == "native"} == set(RULES)


def test_what_becomes_an_op(found: Table) -> None:
    assert named(found, "max_pool").onnx == ("MaxPool",)
    assert "MAX_POOL_2D" in named(found, "max_pool").tflite
    assert named(found, "matmul").onnx[0] == "MatMul"
    assert "DEPTHWISE_CONV_2D" in named(found, "conv").tflite
    assert "RESIZE_BILINEAR" in named(found, "resize").tflite
    assert "LOGISTIC" in named(found, "sigmoid").tflite
    assert "Relu6" in named(found, "clip").tensorflow
    assert "Mean" in named(found, "reduce_mean").tensorflow
    assert "Mean" not in named(found, "mean").tensorflow
    assert "Convolution" in named(found, "conv").caffe
    assert named(found, "fused_conv").onnx == ()
    assert named(found, "fused_conv_transpose").onnx == ()


def test_what_becomes_several(found: Table) -> None:
    assert found.others["tflite"]["SQUARED_DIFFERENCE"] == ("mul", "sub")
    assert "sigmoid" in found.others["tflite"]["LSTM"]
    assert found.others["tensorflow"]["NotEqual"] == ("equal", "not")
    assert found.others["tensorflow"]["StopGradient"] == ()


def test_every_rule_is_somewhere(found: Table) -> None:
    from palmkit.engine.converters.caffe.rules import registry as caffe
    from palmkit.engine.converters.tflite import RULES as tflite

    for name, rules in (("tflite", tflite), ("caffe", caffe())):
        listed = set(found.others[name])
        listed.update(o for each in found.operators for o in getattr(each, name))
        assert listed == set(rules)


def test_a_part_of_a_name(found: Table) -> None:
    part = found.matching("POOL")
    assert {"max_pool", "global_max_pool"} <= {each.op for each in part.operators}
    assert "conv" not in {each.op for each in part.operators}
    assert "L2_POOL_2D" in part.others["tflite"]
    assert {each.op for each in found.matching("LOGISTIC").operators} == {"sigmoid"}


def test_formats(found: Table) -> None:
    part = found.matching("sigmoid")
    facts = json.loads(RENDERED["json"](part))
    assert [each["op"] for each in facts["operators"]][-1] == "sigmoid"
    assert "sigmoid" in RENDERED["text"](part) and "ONNX Sigmoid" in RENDERED["text"](part)


def test_the_document_is_up_to_date(found: Table) -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == RENDERED["markdown"](found), (
        "engine/OPS.md is old, make it again: palmkit ops --format markdown > engine/OPS.md"
    )


def test_without_a_package_its_column_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    without = table()
    assert [each.op for each in without.operators] == sorted(registry())
    assert not any(each.onnx for each in without.operators)


def test_numpy_nodes() -> None:
    type = Type("float32", (4,))
    nodes = (Node("sigmoid", ("x",), ("a",)), Node("non_zero", ("a",), ("b",)))
    graph = Graph({"x": type}, {"b": Type("int64", (1, "n"))}, nodes)
    assert numpy_nodes(graph) == {"b"}
    from dataclasses import replace

    assert numpy_nodes(replace(graph, inputs={"x": Type("float32", ("n",))})) == {"b"}
    alone = Graph({"x": type}, {"a": type}, nodes[:1], {"unused": np.zeros(1)})
    assert numpy_nodes(alone) == set()
