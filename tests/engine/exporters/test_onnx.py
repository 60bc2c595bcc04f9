"""IR -> ONNX, read back by our reader, and run by ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.bench.inputs import open_dims, random_inputs
from palmkit.engine.converters.onnx import convert as read_onnx
from palmkit.engine.exporters.onnx import dumps, operators
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.ops import Case, Op, find
from tests.engine.test_ops import arrays, every_case, one_node

onnx: Any = pytest.importorskip("onnx")

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"


def run_reference(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    return engine.Model(graph, backend="reference").run(inputs)


@every_case
def test_what_is_written_is_read_back_the_same(op: Op, case: Case) -> None:
    graph = one_node(op, case)
    # Both outputs of this one must be there.
    lacks_outputs = op.name == "linear_attention" and case.outputs < 2
    if op.name not in operators() or lacks_outputs or graph.nodes[0].bodies:
        with pytest.raises(engine.UnsupportedError):
            dumps(graph)
        return
    read = read_onnx(dumps(graph))
    assert (read.inputs, list(read.outputs)) == (graph.inputs, list(graph.outputs))
    if not op.pure:
        return
    given = {f"x{i}": x for i, x in enumerate(arrays(case)) if f"x{i}" in graph.inputs}
    inputs = {name: x for name, x in given.items() if x is not None}
    expected, found = run_reference(graph, inputs), run_reference(read, inputs)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        # Attributes are float32 there.
        np.testing.assert_allclose(found[name], value, rtol=1e-6, atol=0)


def run_onnx_runtime(content: bytes, inputs: dict[str, Array]) -> dict[str, Array]:
    runtime: Any = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "face_detection_short_range",
        "hair_segmentation",
        "hand_landmark_lite",
        "iris_landmark",
        "selfie_segmentation",
    ],
)
def test_tflite_networks_in_onnx_runtime(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tflite")
    source = TEACHERS / f"{name}.tflite"
    if not source.is_file():
        pytest.skip(f"no such file: {source}")
    graph = engine.convert(source)
    engine.save(graph, tmp_path / "net.onnx")
    inputs = random_inputs(graph.inputs, open_dims(graph.inputs))
    expected = engine.Model(graph, backend="reference").run(inputs)
    found = run_onnx_runtime((tmp_path / "net.onnx").read_bytes(), inputs)
    assert list(found) == list(graph.outputs)
    for key, value in expected.items():
        # With zero: a single number has a range, too.
        span = float(max(value.max(), 0) - min(value.min(), 0))
        np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-5 * span + 5e-7)


def channels_last() -> Graph:
    """Two convolutions, each with transposes round it, and a height that is open."""
    weight = np.ones((3, 3, 3, 3), np.float32)
    to_front, to_back = {"perm": (0, 3, 1, 2)}, {"perm": (0, 2, 3, 1)}
    nodes = (
        Node("transpose", ("x",), ("a",), to_front, name="same"),
        Node("conv", ("a", "w"), ("b",), {"auto_pad": "SAME_UPPER"}, name="same"),
        Node("transpose", ("b",), ("c",), to_back),
        Node("relu", ("c",), ("d",)),
        Node("transpose", ("d",), ("e",), to_front),
        Node("conv", ("e", "w"), ("f",), {"pads": (1, 1, 1, 1)}),
        Node("transpose", ("f",), ("y",), to_back),
    )
    type = Type("float32", (1, "height", 8, 3))
    constants = {"w": weight, "never read": np.zeros(5, np.float32)}
    return Graph({"x": type}, {"y": type}, nodes, constants, {"licence": "MIT"})


def test_transposes_cancel_and_names_stay() -> None:
    content = dumps(channels_last())
    model = onnx.load_model_from_string(content)
    operators_written = [node.op_type for node in model.graph.node]
    assert operators_written.count("Transpose") == 2
    assert len({node.name for node in model.graph.node}) == len(model.graph.node)
    assert [each.name for each in model.graph.initializer] == ["w"]
    assert model.opset_import[0].version == 18
    read = read_onnx(content)
    assert read.metadata["licence"] == "MIT"
    assert str(read.inputs["x"]) == "float32[1, height, 8, 3]"
    x = {"x": np.random.default_rng(0).normal(size=(1, 5, 8, 3)).astype(np.float32)}
    expected = run_reference(channels_last(), x)["y"]
    np.testing.assert_allclose(run_onnx_runtime(content, x)["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("by_size", [True, False])
def test_resizes_and_pads_are_written_as_most_engines_read_them(by_size: bool) -> None:
    type, result = Type("float32", (1, 2, 4, 5)), Type("float32", (1, 3, 8, 15))
    last = np.array([8, 15], np.int64) if by_size else np.array([2, 3], np.float32)
    nodes = (
        Node("pad", ("x", "pads"), ("a",)),
        Node(
            "resize",
            ("a", "", "", "last") if by_size else ("a", "", "last"),
            ("y",),
            {"axes": (2, 3), "mode": "linear"},
        ),
    )
    pads = np.array([0, 0, 0, 0, 0, 1, 0, 0], np.int64)
    graph = Graph({"x": type}, {"y": result}, nodes, {"pads": pads, "last": last})
    content = dumps(graph)
    pad, resize = onnx.load_model_from_string(content).graph.node
    assert [each.name for each in pad.attribute] == ["mode"]
    assert [each.name for each in resize.attribute] == ["mode"]
    x = {"x": np.random.default_rng(0).normal(size=type.dims).astype(np.float32)}
    expected = run_reference(graph, x)["y"]
    np.testing.assert_allclose(run_onnx_runtime(content, x)["y"], expected, rtol=1e-5, atol=1e-6)


def test_a_newer_operator_takes_a_newer_opset() -> None:
    type = Type("float32", (2, 3))
    graph = Graph({"x": type}, {"y": type}, (Node("gelu", ("x",), ("y",)),))
    assert onnx.load_model_from_string(dumps(graph)).opset_import[0].version == 20


def pooled(size: int, kernel: tuple[int, int], also: bool = False) -> Graph:
    """MediaPipe's pair."""
    x, small = Type("float32", (1, 2, size, size)), (1, 2, size // 2, size // 2)
    attrs = {"kernel_shape": kernel, "strides": (2, 2)}
    nodes = (
        Node("max_pooling_with_argmax_2d", ("x",), ("a", "places"), attrs),
        Node("max_unpooling_2d", ("a", "places"), ("y",), attrs),
    )
    outputs = {"y": x, **({"places": Type("float32", small)} if also else {})}
    return Graph({"x": x}, outputs, nodes)


def test_pairs_of_pooling_and_unpooling() -> None:
    graph = pooled(6, (2, 2))
    x = {"x": np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32)}
    expected = find("max_unpooling_2d").reference(
        *find("max_pooling_with_argmax_2d").reference(x["x"], kernel_shape=(2, 2), strides=(2, 2)),
        kernel_shape=(2, 2),
        strides=(2, 2),
    )
    np.testing.assert_array_equal(run_onnx_runtime(dumps(graph), x)["y"], expected)


@pytest.mark.parametrize("graph", [pooled(6, (2, 2), also=True), pooled(7, (3, 3))])
def test_other_pairs_are_refused(graph: Graph) -> None:
    with pytest.raises(engine.UnsupportedError, match="max_pooling_with_argmax_2d"):
        dumps(graph)


def test_all_that_onnx_lacks_is_listed(tmp_path: Path) -> None:
    type = Type("float32", (2, 3))
    nodes = (
        Node("atan2", ("x", "x"), ("a",), name="angle"),
        Node("fused_conv", ("x4", "w"), ("b",)),
    )
    image = Type("float32", (1, 1, 4, 4))
    graph = Graph(
        {"x": type, "x4": image},
        {"a": type, "b": image},
        nodes,
        {"w": np.ones((1, 1, 1, 1), np.float32)},
    )
    target = tmp_path / "net.onnx"
    target.write_bytes(b"old")
    with pytest.raises(engine.UnsupportedError, match=r"atan2 \(at angle\), fused_conv \(at b\)"):
        engine.save(graph, target)
    assert target.read_bytes() == b"old"
    with pytest.raises(ValueError, match="weights: expected auto or float32 for ONNX"):
        engine.save(graph, target, "float16")
