"""Published TFLite networks agree with LiteRT; what a file says of itself is kept, or checked."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.converters.tflite import convert
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Type, consumers, producers
from palmkit.engine.passes import optimise
from tests.engine.converters.tflite_models import (
    RELU,
    SAME,
    VALID,
    ModelFile,
    One,
    assert_agrees,
    floats,
    ints,
    litert,
    run,
)

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"

# How many transposes each network keeps: one at its picture, one before each reshape of a head or
# at each output that is a picture.
TRANSPOSES = {
    "custom_gesture_classifier": 0,
    "face_detection_full_range": 2,
    "face_detection_full_range_sparse": 2,
    "face_detection_short_range": 5,
    "face_landmark": 3,
    "hair_segmentation": 2,
    "hand_landmark_lite": 1,
    "iris_landmark": 1,
    "palm_detection_full": 5,
    "palm_detection_lite": 5,
    "selfie_segmentation": 2,
    "selfie_segmentation_landscape": 2,
    "version-RFB-320_without_postprocessing": 9,
}

# Pictures go in as -1..1 here, as 0..1 elsewhere.
FROM_MINUS_ONE = ("face_detection", "version-RFB")


def teacher(stem: str) -> bytes:
    found = [path for path in TEACHERS.rglob("*.tflite") if path.stem == stem]
    if not found:
        pytest.skip(f"the published networks of ../shared/teachers are not here: {stem}")
    return found[0].read_bytes()


def photo(dims: tuple[int, ...]) -> Array:
    data = pytest.importorskip("skimage.data")
    transform = pytest.importorskip("skimage.transform")
    picture = transform.resize(data.astronaut(), dims[1:3], anti_aliasing=True)
    return np.asarray(picture[None], np.float32)


@pytest.mark.parametrize("stem", sorted(TRANSPOSES.keys() - {"hair_segmentation"}))
def test_teacher(stem: str) -> None:
    model = teacher(stem)
    graph = convert(model)
    inputs = {
        name: Type(type.dtype, tuple(dim if isinstance(dim, int) else 1 for dim in type.shape))
        for name, type in graph.inputs.items()
    }
    graph = Graph(inputs, graph.outputs, graph.nodes, graph.constants)
    better = optimise(graph)
    random = np.random.default_rng(0)
    low = -1 if stem.startswith(FROM_MINUS_ONE) else 0
    noise = {n: random.uniform(low, 1, t.dims).astype("f4") for n, t in inputs.items()}
    photos = {n: low + (1 - low) * photo(t.dims) for n, t in inputs.items() if len(t.shape) == 4}
    for values in (noise, photos) if photos else (noise,):
        wanted = litert(model, values)
        if graph.outputs != {name: Type.of(value) for name, value in wanted.items()}:
            assert not all(type.is_static for type in graph.outputs.values())
            outputs = {name: Type.of(wanted[name]) for name in graph.outputs}
            graph = Graph(inputs, outputs, graph.nodes, graph.constants)
            better = Graph(inputs, outputs, better.nodes, better.constants)
        assert_agrees(graph, values, wanted)
        assert_agrees(better, values, wanted)


@pytest.mark.parametrize("stem", TRANSPOSES)
def test_no_transpose_inside(stem: str) -> None:
    graph = optimise(convert(teacher(stem)))
    written, readers = producers(graph), consumers(graph)
    for node in graph.nodes:
        if node.op == "transpose":
            after = {reader.op for reader in readers.get(node.outputs[0], [])}
            at_border = node.inputs[0] in graph.inputs or node.outputs[0] in graph.outputs
            before = written.get(node.inputs[0], node).op
            assert at_border or "reshape" in {before, *after}, str(node)
    assert Counter(node.op for node in graph.nodes)["transpose"] == TRANSPOSES[stem]


def test_all_operators_without_a_rule_are_listed() -> None:
    """One error lists counts, the tensors they write, and everything else without a rule."""
    file = ModelFile()
    file.input("x", (4, 4))
    for name in ("a", "b", "c", "d", "y"):
        file.tensor(name, (4, 4))
    file.operator("LSH_PROJECTION", ["x"], ["a"])
    file.operator("Unheard", ["a"], ["b"], custom=b"")
    file.operator("LSH_PROJECTION", ["b"], ["c"])
    file.operator("FULLY_CONNECTED", ["c", "x"], ["d"], "FullyConnectedOptions", weightsFormat=1)
    file.operator("NEG", ["d"], ["y"])
    with pytest.raises(UnsupportedError) as error:
        convert(file.pack(["y"]))
    message = str(error.value)
    assert "LSH_PROJECTION (2: a, c); custom Unheard (1: b); leave them out" in message
    assert "node d: FULLY_CONNECTED: shuffled weights" in message


def dilated_convolution(padding: Array, crops: Array, height: int, width: int) -> bytes:
    file = ModelFile()
    file.input("x", (1, height, width, 4))
    for name, value in (("block", ints(2, 3)), ("padding", padding), ("crops", crops)):
        file.tensor(name, value)
    file.tensor("weights", floats(5, 3, 3, 4))
    file.tensor("bias", floats(5))
    for name in ("split", "middle", "y"):
        file.tensor(name, (1, 1, 1, 1))
    file.operator(
        "SPACE_TO_BATCH_ND", ["x", "block", "padding"], ["split"], "SpaceToBatchNDOptions"
    )
    file.operator(
        "CONV_2D", ["split", "weights", "bias"], ["middle"], "Conv2DOptions", padding=VALID,
        strideH=1, strideW=1, dilationHFactor=1, dilationWFactor=1, fusedActivationFunction=RELU,
    )  # fmt: skip
    file.operator("BATCH_TO_SPACE_ND", ["middle", "block", "crops"], ["y"], "BatchToSpaceNDOptions")
    return file.pack(["y"])


def test_a_convolution_between_space_and_batch_is_dilated() -> None:
    model = dilated_convolution(ints([2, 3], [3, 3]), ints([0, 1], [0, 0]), 9, 9)
    inputs = {"x": floats(1, 9, 9, 4)}
    graph = optimise(convert(model))
    assert_agrees(graph, inputs, litert(model, inputs))
    (layer,) = [node for node in graph.nodes if node.op == "fused_conv"]
    assert layer.attrs["dilations"] == (2, 3)
    assert {node.op for node in graph.nodes} <= {"transpose", "fused_conv", "slice"}


def test_constants_of_half_precision_are_decoded() -> None:
    file = ModelFile()
    file.input("x", (2, 4))
    file.tensor("half", floats(4).astype(np.float16))
    file.tensor("whole", (4,))
    file.tensor("y", (2, 4))
    file.operator("DEQUANTIZE", ["half"], ["whole"], "DequantizeOptions")
    file.operator("ADD", ["x", "whole"], ["y"], "AddOptions")
    model, inputs = file.pack(["y"]), {"x": floats(2, 4)}
    graph = convert(model)
    assert [node.op for node in graph.nodes] == ["add"]
    assert graph.constants["whole"].dtype == np.float32
    assert_agrees(graph, inputs, litert(model, inputs))


def behind(offset: int, size: int) -> bytes:
    """A model whose constant is said to stand outside of the flatbuffer."""
    file = ModelFile()
    file.input("x", (2, 4))
    file.tensor("far", floats(4))
    file.buffers[1].data, file.buffers[1].offset, file.buffers[1].size = None, offset, size
    file.tensor("y", (2, 4))
    file.operator("ADD", ["x", "far"], ["y"], "AddOptions")
    return file.pack(["y"])


def test_constants_behind_the_flatbuffer() -> None:
    """So files of more than 2 GB have them."""
    model = behind(len(behind(999, 16)), 16)
    far = floats(4)
    graph = convert(model + far.tobytes())
    np.testing.assert_array_equal(graph.constants["far"], far)


@pytest.mark.parametrize(("offset", "size"), [(10**12, 16), (100, 10**12), (2, 2**63)])
def test_constants_that_are_not_in_the_file(offset: int, size: int) -> None:
    with pytest.raises(ModelError, match=r"tensor 1 \(far\): bytes"):
        convert(behind(offset, size))


def test_names_stay_and_twice_the_same_name_is_told_apart() -> None:
    file = ModelFile()
    file.input("picture", (1, 4, 4, 2))
    file.tensor("same", (1, 4, 4, 2))
    file.tensor("result", (1, 4, 4, 2))
    file.operator("RELU", ["picture"], ["same"])
    file.operator("NEG", ["same"], ["result"])
    file.tensors[2].name = b"same"
    graph = convert(file.pack(["result"]))
    assert list(graph.inputs) == ["picture"]
    assert list(graph.outputs) == ["same"]
    assert [node.outputs for node in graph.nodes] == [("same.1",), ("same",)]


def test_wrong_declared_shapes_are_not_believed() -> None:
    model, _ = one_pool().pack()
    assert convert(model).outputs["y0"] == Type("float32", (1, 3, 2, 4))


def one_pool() -> One:
    values = {"padding": VALID, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
    return One("MAX_POOL_2D", ((1, 6, 5, 4),), "Pool2DOptions", values)


def test_unknown_dims_are_named_after_their_tensor() -> None:
    file = ModelFile()
    file.input("x", (1, 4, 2))
    file.tensor("y", (1, 4, 2))
    file.operator("RELU", ["x"], ["y"])
    for tensor in file.tensors:
        tensor.shapeSignature = np.array([-1, 4, 2], np.int32)
    graph = convert(file.pack(["y"]))
    assert graph.inputs["x"].shape == ("x_0", 4, 2)
    assert graph.outputs["y"].shape == ("y_0", 4, 2)


def any_size() -> bytes:
    """A network of pictures of any number and size: layers, sizes computed from shapes, a head."""
    file = ModelFile()
    file.input("x", (1, 1, 1, 3))
    file.tensors[0].shapeSignature = np.array([-1, -1, -1, 3], np.int32)
    file.tensor("weights", floats(4, 3, 3, 3))
    file.tensor("bias", floats(4))
    for name in ("layer", "pooled", "large", "padded", "y"):
        file.tensor(name, (1, 1, 1, 4))
        file.tensors[-1].shapeSignature = np.array([-1, -1, -1, 4], np.int32)
    for name, size in (("shape", 4), ("height_width", 2)):
        file.tensor(name, (size,), "int32")
    for name, value in (("begin", ints(1)), ("end", ints(3)), ("step", ints(1))):
        file.tensor(name, value)
    file.tensor("amounts", ints([0, 0], [1, 0], [0, 2], [0, 0]))
    file.tensor("axes", ints(1, 2))
    file.tensor("mean", (1, 4))
    file.tensor("head", floats(5, 4))
    file.tensor("scores", (1, 5))
    file.tensors[-1].shapeSignature = np.array([-1, 5], np.int32)
    strides = {"strideH": 2, "strideW": 2}
    file.operator(
        "CONV_2D", ["x", "weights", "bias"], ["layer"], "Conv2DOptions", padding=SAME, **strides
    )
    file.operator(
        "AVERAGE_POOL_2D", ["layer"], ["pooled"], "Pool2DOptions", padding=SAME, filterHeight=3,
        filterWidth=3, **strides,
    )  # fmt: skip
    file.operator("SHAPE", ["x"], ["shape"], "ShapeOptions", outType=2)
    cut = ["shape", "begin", "end", "step"]
    file.operator("STRIDED_SLICE", cut, ["height_width"], "StridedSliceOptions")
    file.operator(
        "RESIZE_BILINEAR", ["pooled", "height_width"], ["large"], "ResizeBilinearOptions",
        halfPixelCenters=True, version=3,
    )  # fmt: skip
    file.operator("PAD", ["large", "amounts"], ["padded"], "PadOptions")
    file.operator("RELU", ["padded"], ["y"])
    file.operator("MEAN", ["layer", "axes"], ["mean"], "ReducerOptions")
    file.operator("FULLY_CONNECTED", ["mean", "head"], ["scores"], "FullyConnectedOptions")
    return file.pack(["y", "scores"])


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_a_network_of_any_size_runs_at_each(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "any_size.tflite"
    file = any_size()
    path.write_bytes(file)
    model = engine.load(path, backend=backend)
    assert model.inputs["x"].shape == ("x_0", "x_1", "x_2", 3)
    assert model.outputs["y"].shape[3] == 4
    assert model.outputs["scores"].shape[1] == 5
    for dims in ((1, 9, 12, 3), (2, 16, 16, 3), (1, 1, 1, 3), (3, 31, 5, 3)):
        inputs = {"x": floats(*dims)}
        wanted, got = litert(file, inputs, resize=True), model.run(inputs)
        for name, value in wanted.items():
            assert got[name].shape == value.shape
            np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def test_what_only_a_run_can_tell_is_left_open() -> None:
    """The file says [1, 1]; how many places there are hangs on the values."""
    file = ModelFile()
    file.input("x", (2, 3), "bool")
    file.tensor("y", (1, 1), "int64")
    file.operator("WHERE", ["x"], ["y"], "WhereOptions")
    graph = convert(file.pack(["y"]))
    assert graph.outputs["y"] == Type("int64", ("y_0", "y_1"))
    assert run(graph, {"x": np.ones((2, 3), np.bool_)})["y"].shape == (6, 2)


def test_a_newer_schema_is_refused() -> None:
    file = ModelFile()
    file.input("x", (4,))
    file.tensor("y", (4,))
    file.operator("RELU", ["x"], ["y"])
    with pytest.raises(ModelError, match="expected version 3, got 4"):
        convert(file.pack(["y"], version=4))


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\0\0\0\0TFL", b"\0" * 100, b"\x20\0\0\0TFL3"])
def test_other_bytes_are_no_model(content: bytes) -> None:
    with pytest.raises(ModelError):
        convert(content)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = one_pool().pack()
    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(UnsupportedError, match=r"pip install \"palmkit\[tflite\]\""):
        convert(model)


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        convert(tmp_path / "none.tflite")
