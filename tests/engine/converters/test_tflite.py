"""TFLite models give the numbers that LiteRT gives, and broken ones an error."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.converters.tflite import RULES, convert
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Type, consumers, producers
from palmkit.engine.passes import optimise

pytest.importorskip("tflite")
interpreter_module = pytest.importorskip("ai_edge_litert.interpreter")
schema: Any = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers: Any = pytest.importorskip("flatbuffers")

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"

# How many transposes each network keeps: one at its picture, one before each reshape of a head or
# at each output that is a picture.
TRANSPOSES = {
    "custom_gesture_classifier": 0,
    "face_detection_full_range": 2,
    "face_detection_full_range_sparse": 2,
    "face_detection_short_range": 5,
    "face_landmark": 3,
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


def litert(model: bytes, inputs: dict[str, Array]) -> dict[str, Array]:
    interpreter = interpreter_module.Interpreter(model_content=model, num_threads=1)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def run(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    return Reference().compile(graph).run(inputs)


def assert_agrees(graph: Graph, inputs: dict[str, Array], wanted: dict[str, Array]) -> None:
    got = run(graph, inputs)
    assert sorted(got) == sorted(wanted)
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype
        assert got[name].shape == value.shape
        assert graph.outputs[name] == Type.of(value)
        if value.dtype.kind == "f":
            spread = np.ptp(value) if value.size > 1 else np.abs(value).max(initial=0)
            worst = np.abs(got[name] - value).max(initial=0)
            assert worst <= 1e-4 * spread, f"{name}: off by {worst}, range {spread}"
        else:
            np.testing.assert_array_equal(got[name], value)


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


@pytest.mark.parametrize("stem", TRANSPOSES)
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


def test_unknown_operators_are_all_listed() -> None:
    with pytest.raises(UnsupportedError) as error:
        convert(teacher("hair_segmentation"))
    message = str(error.value)
    assert "custom MaxPoolingWithArgmax2D (max_pooling_with_argmax2d, max" in message
    assert "max_pooling_with_argmax2d_2" in message
    assert "max_unpooling2d" in message


@dataclass
class ModelFile:
    """A TFLite model in the making: tensors by name, operators in order."""

    names: list[str] = field(default_factory=list[str])
    tensors: list[Any] = field(default_factory=list[Any])
    buffers: list[Any] = field(default_factory=list[Any])
    codes: list[Any] = field(default_factory=list[Any])
    operators: list[Any] = field(default_factory=list[Any])
    inputs: list[int] = field(default_factory=list[int])

    def tensor(self, name: str, value: Array | tuple[int, ...], dtype: str = "float32") -> str:
        tensor = schema.TensorT()
        if not self.buffers:
            self.buffers.append(schema.BufferT())
        dims = value
        if isinstance(value, np.ndarray):
            dims, dtype, buffer = value.shape, value.dtype.name, schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        tensor.name, tensor.shape = name.encode(), np.array(dims, np.int32)
        tensor.type = getattr(schema.TensorType, dtype.upper())
        self.names.append(name)
        self.tensors.append(tensor)
        return name

    def input(self, name: str, dims: tuple[int, ...], dtype: str = "float32") -> str:
        self.inputs.append(len(self.tensors))
        return self.tensor(name, dims, dtype)

    def operator(
        self, op: str, inputs: list[str], outputs: list[str], options: str = "", **values: Any
    ) -> None:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, op)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = values.pop("version", 1)
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self.codes)
        self.codes.append(code)
        operator.inputs = np.array([self.names.index(n) if n else -1 for n in inputs], np.int32)
        operator.outputs = np.array([self.names.index(name) for name in outputs], np.int32)
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
            for name, value in values.items():
                assert hasattr(operator.builtinOptions, name), name
                setattr(operator.builtinOptions, name, value)
        self.operators.append(operator)

    def pack(self, outputs: list[str], version: int = 3) -> bytes:
        graph = schema.SubGraphT()
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs = np.array(self.inputs, np.int32)
        graph.outputs = np.array([self.names.index(name) for name in outputs], np.int32)
        model = schema.ModelT()
        model.version, model.subgraphs = version, [graph]
        model.operatorCodes, model.buffers = self.codes, self.buffers
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


X = (1, 6, 5, 4)
RANDOM = np.random.default_rng(5)


def floats(*dims: int) -> Array:
    return RANDOM.normal(size=dims).astype(np.float32)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


@dataclass
class One:
    """A model of one operator: "x" is its first input of these dims, the rest are constants."""

    op: str
    inputs: tuple[Any, ...]
    options: str = ""
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: tuple[str, ...] = ("float32",)

    def pack(self) -> tuple[bytes, dict[str, Array]]:
        file = ModelFile()
        names: list[str] = []
        arrays: dict[str, Array] = {}
        for place, value in enumerate(self.inputs):
            name = f"t{place}"
            if value is None:
                names.append("")
                continue
            if isinstance(value, tuple):
                arrays[name] = floats(*cast("tuple[int, ...]", value))
                names.append(file.input(name, arrays[name].shape))
            else:
                names.append(file.tensor(name, value))
        values = dict(self.values)
        dims = values.pop("dims", (1,) * values.pop("rank", 4))
        outputs = [file.tensor(f"y{i}", dims, dtype) for i, dtype in enumerate(self.outputs)]
        file.operator(self.op, names, outputs, self.options, **values)
        return file.pack(outputs), arrays


RELU, RELU6 = 1, 3
SAME, VALID = 0, 1


def one(
    op: str, *inputs: Any, options: str = "", outputs: tuple[str, ...] = ("float32",), **values: Any
) -> Any:
    shown = " ".join(f"{key}={value}" for key, value in values.items())
    return pytest.param(One(op, inputs, options, values, outputs), id=f"{op} {shown}")


def conv(op: str = "CONV_2D", weights: Array | None = None, **values: Any) -> Any:
    options = "Conv2DOptions" if op == "CONV_2D" else "DepthwiseConv2DOptions"
    weights = floats(7, 3, 2, 4) if weights is None else weights
    bias = floats(weights.shape[0 if op == "CONV_2D" else 3])
    ones = ("strideH", "strideW", "dilationHFactor", "dilationWFactor")
    chosen: dict[str, Any] = {**dict.fromkeys(ones, 1), **values}
    return one(op, X, weights, bias, options=options, **chosen)


def transposed(kernel: int, stride: int, padding: int, height: int, width: int) -> Any:
    return one(
        "TRANSPOSE_CONV", ints(1, height, width, 3), floats(3, kernel, kernel, 4), X,
        options="TransposeConvOptions", padding=padding, strideH=stride, strideW=stride,
    )  # fmt: skip


CASES = [
    conv(padding=SAME),
    conv(padding=VALID, fusedActivationFunction=RELU),
    conv(padding=SAME, strideH=2, strideW=3, fusedActivationFunction=RELU6),
    conv(padding=SAME, dilationHFactor=2, dilationWFactor=2),
    conv("DEPTHWISE_CONV_2D", floats(1, 3, 3, 4), padding=SAME, depthMultiplier=1, strideH=2,
         strideW=2),
    conv("DEPTHWISE_CONV_2D", floats(1, 3, 3, 8), padding=VALID, depthMultiplier=2),
    transposed(3, 2, SAME, 12, 10),
    transposed(3, 2, SAME, 11, 9),
    transposed(4, 2, SAME, 12, 10),
    transposed(3, 2, VALID, 13, 11),
    transposed(2, 2, VALID, 12, 10),
    *(
        one(op, X, options="Pool2DOptions", padding=padding, strideH=2, strideW=2, filterHeight=3,
            filterWidth=2)
        for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D")
        for padding in (SAME, VALID)
    ),
    *(
        one(f"RESIZE_{kind}", X, ints(*size),
            options=f"Resize{options}Options", alignCorners=align, halfPixelCenters=half, version=3)
        for kind, options in (("BILINEAR", "Bilinear"), ("NEAREST_NEIGHBOR", "NearestNeighbor"))
        for size in ((12, 10), (3, 7), (1, 1), (9, 13))
        for align, half in ((False, False), (True, False), (False, True))
    ),
    one("FULLY_CONNECTED", (3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        fusedActivationFunction=RELU, rank=2),
    one("FULLY_CONNECTED", (3, 8), floats(5, 8), None, options="FullyConnectedOptions", rank=2),
    one("FULLY_CONNECTED", (2, 3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        keepNumDims=True, rank=3),
    one("FULLY_CONNECTED", (2, 3, 8), floats(5, 8), floats(5), options="FullyConnectedOptions",
        rank=2),
    one("BATCH_MATMUL", (2, 3, 4), (2, 4, 5), options="BatchMatMulOptions", rank=3),
    one("BATCH_MATMUL", (2, 4, 3), (2, 5, 4), options="BatchMatMulOptions", adjX=True, adjY=True,
        rank=3),
    one("ADD", X, floats(4), options="AddOptions", fusedActivationFunction=RELU6),
    one("SUB", X, X, options="SubOptions", fusedActivationFunction=RELU),
    one("MUL", X, floats(1, 6, 1, 1), options="MulOptions"),
    one("DIV", X, floats(4), options="DivOptions"),
    one("MAXIMUM", X, X, options="MaximumMinimumOptions"),
    one("MINIMUM", X, floats(4), options="MaximumMinimumOptions"),
    one("POW", X, np.array(2, np.float32), options="PowOptions"),
    one("PRELU", X, floats(1, 1, 4)),
    one("SQUARED_DIFFERENCE", X, X),
    *(
        one(op, X)
        for op in (
            "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "LOGISTIC", "TANH",
            "HARD_SWISH", "ELU", "EXP", "NEG",
            "ABS", "FLOOR", "CEIL", "ROUND", "SQUARE",
        )
    ),
    one("LEAKY_RELU", X, options="LeakyReluOptions", alpha=0.3),
    one("L2_NORMALIZATION", X, options="L2NormOptions"),
    one("SOFTMAX", X, options="SoftmaxOptions", beta=1.0),
    one("SOFTMAX", (3, 7), options="SoftmaxOptions", beta=0.5, rank=2),
    one("MEAN", X, ints(1, 2), options="ReducerOptions", keepDims=True),
    one("MEAN", X, ints(1, 2), options="ReducerOptions", rank=2),
    one("SUM", X, ints(-1), options="ReducerOptions", rank=3),
    one("REDUCE_MAX", X, ints(1), options="ReducerOptions", keepDims=True),
    one("REDUCE_MIN", X, ints(2), options="ReducerOptions", keepDims=True),
    one("REDUCE_PROD", X, ints(3), options="ReducerOptions", keepDims=True),
    one("ARG_MAX", X, np.array(3, np.int32), options="ArgMaxOptions", outputType=2,
        outputs=("int32",), rank=3),
    one("ARG_MAX", X, np.array(1, np.int32), options="ArgMaxOptions", outputType=4,
        outputs=("int64",), rank=3),
    one("CAST", X, options="CastOptions", inDataType=0, outDataType=2, outputs=("int32",)),
    one("SHAPE", X, options="ShapeOptions", outType=2, outputs=("int32",), rank=1),
    one("RESHAPE", X, ints(2, -1, 4), options="ReshapeOptions", rank=3),
    one("RESHAPE", X, options="ReshapeOptions", newShape=[30, 4], rank=2),
    one("SQUEEZE", (1, 6, 1, 4), options="SqueezeOptions", squeezeDims=[2], rank=3),
    one("SQUEEZE", (1, 6, 1, 4), options="SqueezeOptions", rank=2),
    one("EXPAND_DIMS", (6, 4), ints(-1), options="ExpandDimsOptions", rank=3),
    one("TRANSPOSE", X, ints(3, 0, 2, 1), options="TransposeOptions"),
    one("CONCATENATION", X, X, options="ConcatenationOptions", axis=-1),
    one("CONCATENATION", X, X, options="ConcatenationOptions", axis=1),
    one("PACK", X, X, X, options="PackOptions", valuesCount=3, axis=1, rank=5),
    one("PACK", X, X, options="PackOptions", valuesCount=2, axis=-1, rank=5),
    one("UNPACK", (3, 2, 4), options="UnpackOptions", num=2, axis=1, rank=2,
        outputs=("float32",) * 2),
    one("SPLIT", np.array(2, np.int32), (1, 3, 6, 2), options="SplitOptions", numSplits=3,
        outputs=("float32",) * 3),
    one("SPLIT_V", X, ints(2, -1, 1), np.array(1, np.int32), options="SplitVOptions", numSplits=3,
        outputs=("float32",) * 3),
    one("SLICE", X, ints(0, 1, 2, 0), ints(1, 3, -1, 2), options="SliceOptions",
        dims=(1, 3, 3, 2)),
    one("STRIDED_SLICE", X, ints(0, 1, 4, 0), ints(1, 6, 0, 4), ints(1, 2, -1, 1),
        options="StridedSliceOptions"),
    one("STRIDED_SLICE", X, ints(0, 1, -1, 0), ints(0, 0, 0, 0), ints(1, 2, -1, 1),
        options="StridedSliceOptions", beginMask=5, endMask=15),
    one("STRIDED_SLICE", X, ints(0, 2, -1), ints(1, 3, 0), ints(1, 1, 1),
        options="StridedSliceOptions", shrinkAxisMask=6, rank=2),
    one("PAD", X, ints([0, 0], [1, 2], [0, 1], [3, 0]), options="PadOptions"),
    one("PADV2", X, ints([0, 0], [1, 2], [0, 1], [0, 0]), np.array([2.5], np.float32),
        options="PadV2Options"),
    one("MIRROR_PAD", X, ints([0, 0], [2, 1], [1, 2], [0, 0]), options="MirrorPadOptions", mode=0),
    one("MIRROR_PAD", X, ints([0, 0], [1, 1], [1, 0], [0, 0]), options="MirrorPadOptions", mode=1),
    one("GATHER", X, ints(3, 0, 3), options="GatherOptions", axis=2),
    one("TILE", X, ints(1, 2, 1, 3), options="TileOptions"),
    one("BROADCAST_TO", (1, 1, 5, 4), ints(2, 6, 5, 4), options="BroadcastToOptions", version=2),
    one("DEPTH_TO_SPACE", (1, 3, 2, 12), options="DepthToSpaceOptions", blockSize=2),
    one("SPACE_TO_DEPTH", (1, 4, 6, 3), options="SpaceToDepthOptions", blockSize=2),
    one("SPACE_TO_BATCH_ND", (2, 4, 5, 3), ints(2, 3), ints([0, 2], [1, 0]),
        options="SpaceToBatchNDOptions"),
    one("BATCH_TO_SPACE_ND", (12, 3, 2, 3), ints(2, 3), ints([1, 0], [0, 2]),
        options="BatchToSpaceNDOptions"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operator(case: One) -> None:
    model, inputs = case.pack()
    wanted = litert(model, inputs)
    graph = convert(model)
    assert_agrees(graph, inputs, wanted)
    assert_agrees(optimise(graph), inputs, wanted)


@pytest.mark.parametrize("op", ["LOG", "SQRT", "RSQRT"])
def test_operator_of_positive_numbers(op: str) -> None:
    model, inputs = One(op, (X,)).pack()
    inputs = {name: np.abs(value) + np.float32(0.1) for name, value in inputs.items()}
    assert_agrees(convert(model), inputs, litert(model, inputs))


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
    return One("MAX_POOL_2D", (X,), "Pool2DOptions", values)


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


def test_quantized_models_are_refused() -> None:
    file = ModelFile()
    file.input("x", (1, 4), "int8")
    file.tensor("y", (1, 4), "int8")
    file.operator("RELU", ["x"], ["y"])
    for tensor in file.tensors:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = np.array([0.5], np.float32)
        tensor.quantization.zeroPoint = np.array([0], np.int64)
    with pytest.raises(UnsupportedError, match="2 quantized tensors, first: x"):
        convert(file.pack(["y"]))


def test_operators_without_a_rule_are_listed() -> None:
    file = ModelFile()
    file.input("x", (4,))
    file.tensor("rank", (1,))
    file.tensor("zeros", (4,))
    file.operator("RANK", ["x"], ["rank"], "RankOptions")
    file.operator("ZEROS_LIKE", ["x"], ["zeros"], "ZerosLikeOptions")
    with pytest.raises(UnsupportedError, match=r"RANK \(rank\); ZEROS_LIKE \(zeros\)"):
        convert(file.pack(["rank", "zeros"]))


def test_a_newer_schema_is_refused() -> None:
    file = ModelFile()
    file.input("x", (4,))
    file.tensor("y", (4,))
    file.operator("RELU", ["x"], ["y"])
    with pytest.raises(ModelError, match="expected version 3, got 4"):
        convert(file.pack(["y"], version=4))


def test_every_rule_is_tried() -> None:
    tried = {parameter.values[0].op for parameter in CASES}
    elsewhere = {"LOG", "SQRT", "RSQRT", "DEQUANTIZE", "DENSIFY", "Convolution2DTransposeBias"}
    assert set(RULES) == tried | elsewhere


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


def test_broken_files_give_typed_errors() -> None:
    """Every cut and every flipped bit: an error of ours, or a graph."""
    model = dilated_convolution(ints([2, 3], [3, 3]), ints([0, 1], [0, 0]), 9, 9)
    refused = 0
    damaged = [model[:length] for length in range(0, len(model), 7)]
    for place in range(0, len(model), 3):
        flipped = bytearray(model)
        flipped[place] ^= 1 << (place % 8)
        damaged.append(bytes(flipped))
    for content in damaged:
        try:
            optimise(convert(content))
        except PalmError:
            refused += 1
    assert refused > len(damaged) // 4
