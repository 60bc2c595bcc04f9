"""Models with open dims: at each size they are planned once, and agree with the source's engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import Backend
from palmkit.engine.backends.partition import specialise
from palmkit.engine.compare import difference
from palmkit.engine.converters import onnx as onnx_converter
from palmkit.engine.converters import tflite as tflite_converter
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.sources import OnnxRuntime

onnx: Any = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

TEACHERS = Path(__file__).parents[2].parent / "shared" / "teachers"
TOLERANCE = 1e-4

random = np.random.default_rng(11)


def normal(*shape: int) -> Array:
    return random.normal(size=shape).astype(np.float32)


def assert_agrees(expected: dict[str, Array], found: dict[str, Array]) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].shape == value.shape
        assert difference(value, found[name]) <= TOLERANCE, name


def encoder_decoder() -> bytes:
    """Return what exporters write: sizes are taken from shapes and combined by arithmetic."""
    helper, tensors = onnx.helper, onnx.numpy_helper
    weights = {
        "w1": normal(8, 3, 3, 3),
        "w2": normal(8, 8, 3, 3),
        "w3": normal(5, 11, 1, 1),
        "two": np.array([2], np.int64),
        "four": np.array([4], np.int64),
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "flat": np.array([-1, 5], np.int64),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "w1"], ["a"], strides=[2, 2], **same),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w2"], ["c"], auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("Resize", ["c", "", "scales"], ["d0"], mode="nearest"),
        helper.make_node("Shape", ["image"], ["shape"]),
        helper.make_node("Shape", ["d0"], ["small"]),
        helper.make_node("Slice", ["shape", "two", "four", "zero"], ["sides"]),
        helper.make_node("Slice", ["small", "zero", "two", "zero"], ["front"]),
        helper.make_node("Concat", ["front", "sides"], ["sizes"], axis=0),
        helper.make_node(
            "Resize",
            ["d0", "", "", "sizes"],
            ["d"],
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        ),
        helper.make_node("Concat", ["d", "image"], ["e"], axis=1),
        helper.make_node("Conv", ["e", "w3"], ["masks"]),
        helper.make_node("Transpose", ["masks"], ["f"], perm=[0, 2, 3, 1]),
        helper.make_node("Reshape", ["f", "flat"], ["g"]),
        helper.make_node("Softmax", ["g"], ["rows"], axis=-1),
    ]
    float32 = onnx.TensorProto.FLOAT
    dims: Sequence[int | str] = ("batch", 3, "height", "width")
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("image", float32, dims)],
        [
            helper.make_tensor_value_info("masks", float32, ("batch", 5, "height", "width")),
            helper.make_tensor_value_info("rows", float32, ("rows", 5)),
        ],
        [tensors.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


def sequence() -> bytes:
    """A recurrent layer, attention over its steps, and a matrix; any batch and any length."""
    helper, tensors = onnx.helper, onnx.numpy_helper
    weights = {
        "w": normal(2, 24, 4),
        "r": normal(2, 24, 6),
        "m": normal(12, 3),
        "merged": np.array([0, 0, 12], np.int64),
    }
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["y4"], hidden_size=6, direction="bidirectional"),
        helper.make_node("Transpose", ["y4"], ["y3"], perm=[2, 0, 1, 3]),
        helper.make_node("Reshape", ["y3", "merged"], ["y"]),
        helper.make_node("Transpose", ["y"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["y", "t"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "y"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "m"], ["z"]),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", float32, ("steps", "batch", 4))],
        [helper.make_tensor_value_info("z", float32, ("batch", "steps", 3))],
        [tensors.from_array(value, name) for name, value in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())


NETWORKS: dict[str, tuple[bytes, list[tuple[int, ...]]]] = {
    "image": (encoder_decoder(), [(1, 3, 32, 32), (2, 3, 20, 36), (1, 3, 21, 13), (3, 3, 5, 4)]),
    "x": (sequence(), [(5, 1, 4), (2, 3, 4), (11, 2, 4), (1, 1, 4)]),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", list(NETWORKS))
def test_onnx_at_each_size(tmp_path: Path, name: str, backend: str) -> None:
    content, shapes = NETWORKS[name]
    (tmp_path / "net.onnx").write_bytes(content)
    source = OnnxRuntime(tmp_path / "net.onnx")
    model = engine.load(tmp_path / "net.onnx", backend=backend)
    assert not any(type.is_static for type in model.inputs.values())
    # Back to the first size, too, with the plans of the others about.
    for shape in (*shapes, shapes[0]):
        inputs = {name: normal(*shape)}
        assert_agrees(source.values(inputs, None), model.run(inputs))


def test_open_dims_survive_the_file(tmp_path: Path) -> None:
    content, shapes = NETWORKS["image"]
    (tmp_path / "net.onnx").write_bytes(content)
    graph = engine.convert(tmp_path / "net.onnx")
    assert graph.inputs["image"] == Type("float32", ("batch", 3, "height", "width"))
    engine.save(graph, tmp_path / "net.palm")
    engine.save(engine.optimise(graph), tmp_path / "optimised.palm")
    source = OnnxRuntime(tmp_path / "net.onnx")
    for file in ("net.palm", "optimised.palm"):
        model = engine.load(tmp_path / file)
        assert model.inputs["image"] == graph.inputs["image"]
        for shape in shapes:
            inputs = {"image": normal(*shape)}
            assert_agrees(source.values(inputs, None), model.run(inputs))


def test_each_size_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[tuple[int, ...]] = []

    def counted(graph: Graph, inputs: dict[str, Type], backend: Backend) -> Graph:
        planned.append(inputs["image"].dims)
        return specialise(graph, inputs, backend)

    monkeypatch.setattr("palmkit.engine.backends.partition.specialise", counted)
    content, shapes = NETWORKS["image"]
    model = engine.Model(onnx_converter.convert(content))
    assert planned == []
    for _ in range(3):
        for shape in shapes:
            model.run({"image": normal(*shape)})
    assert planned == shapes


def test_what_does_not_fit_is_refused() -> None:
    model = engine.Model(onnx_converter.convert(NETWORKS["image"][0]))
    for shape in ((1, 4, 32, 32), (3, 32, 32), (1, 3, 32, 32, 1)):
        with pytest.raises(engine.ShapeError, match=r"expected float32\[batch, 3, height, width\]"):
            model.run({"image": normal(*shape)})
    assert model.run({"image": normal(1, 3, 8, 8)})["masks"].shape == (1, 5, 8, 8)


@pytest.mark.skipif(not TEACHERS.is_dir(), reason="needs ../shared/teachers")
def test_a_published_detector_at_each_size() -> None:
    path = TEACHERS / "yunet_n_dynamic.onnx"
    source, model = OnnxRuntime(path), engine.load(path)
    for height, width in ((320, 320), (96, 160), (256, 128), (320, 320)):
        pixels = random.integers(0, 256, (1, 3, height, width)).astype(np.float32)
        expected = source.values({"input": pixels}, None)
        assert_agrees(expected, model.run({"input": pixels}))
        assert expected["cls_8"].shape == (1, height * width // 64, 1)


def test_tflite_at_each_size() -> None:
    """A file whose shape_signature has -1: padding and sizes are worked out at run time."""
    tflite: Any = pytest.importorskip("tests.engine.converters.tflite_models")
    file = tflite.ModelFile()
    file.input("image", (1, 8, 8, 3))
    file.tensor("w1", normal(6, 3, 3, 3))
    file.tensor("b1", normal(6))
    file.tensor("w2", normal(1, 3, 3, 6))
    file.tensor("b2", normal(6))
    file.tensor("axes", np.array([1, 2], np.int32))
    for name in ("conv", "features", "pooled"):
        file.tensor(name, (1, 4, 4, 6))
    file.tensor("mean", (1, 1, 1, 6))
    file.tensor("gated", (1, 4, 4, 6))
    stride = {"strideH": 2, "strideW": 2, "padding": tflite.SAME}
    relu6 = {"fusedActivationFunction": tflite.RELU6}
    file.operator("CONV_2D", ["image", "w1", "b1"], ["conv"], "Conv2DOptions", **stride, **relu6)
    depthwise = {**stride, "depthMultiplier": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    file.operator(
        "DEPTHWISE_CONV_2D",
        ["conv", "w2", "b2"],
        ["features"],
        "DepthwiseConv2DOptions",
        **depthwise,
    )
    window = {**stride, "strideH": 1, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
    file.operator("AVERAGE_POOL_2D", ["features"], ["pooled"], "Pool2DOptions", **window)
    file.operator("MEAN", ["pooled", "axes"], ["mean"], "ReducerOptions", keepDims=True)
    file.operator("MUL", ["pooled", "mean"], ["gated"], "MulOptions")
    for tensor in file.tensors:
        if tensor.name in (b"image", b"conv", b"features", b"pooled", b"gated"):
            tensor.shapeSignature = np.array([-1, -1, -1, tensor.shape[3]], np.int32)
    content = file.pack(["gated", "mean"])
    graph = tflite_converter.convert(content)
    assert graph.inputs["image"].shape == ("image_0", "image_1", "image_2", 3)
    for backend in ("reference", "cpu"):
        model = engine.Model(graph, backend)
        for shape in ((1, 8, 8, 3), (2, 7, 11, 3), (1, 32, 5, 3), (3, 1, 1, 3), (1, 8, 8, 3)):
            inputs = {"image": normal(*shape)}
            assert_agrees(tflite.litert(content, inputs, resize=True), model.run(inputs))


def test_torch_at_each_size(tmp_path: Path) -> None:
    """A module that torch exported, through the file and ONNX Runtime."""
    torch: Any = pytest.importorskip("torch", reason="torch is in none of the test extras")
    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6(), nn.PixelShuffle(2)]
    module = nn.Sequential(*layers, nn.Conv2d(2, 4, 3, padding=1), nn.Upsample(scale_factor=2))
    open_dims = {"x": {0: "batch", 2: "height", 3: "width"}}
    graph = engine.from_torch(
        module, torch.zeros(1, 3, 16, 16), input_names=["x"], dynamic_shapes=open_dims
    )
    engine.save(graph, tmp_path / "net.palm")
    model = engine.load(tmp_path / "net.palm")
    for shape in ((1, 3, 16, 16), (4, 3, 30, 18), (2, 3, 9, 7)):
        x = normal(*shape)
        with torch.no_grad():
            expected = module.eval()(torch.from_numpy(x)).numpy()
        (found,) = model.run({"x": x}).values()
        assert found.shape == expected.shape
        assert difference(expected, found) <= TOLERANCE
