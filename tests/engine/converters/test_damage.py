"""What no file may do to its reader, whatever the format: see the fuzzer for the rest."""

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.converters import caffe, onnx, tensorflow, tflite
from palmkit.engine.converters.damage import DAMAGE, damage_as_model_error
from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.ir import Attr, Graph, Known, Node, Type, check
from palmkit.engine.model import Model
from palmkit.engine.ops import infer_types, registry
from tests.engine.converters import fuzz, fuzz_changes, fuzz_seeds
from tests.engine.converters.caffe_samples import INPUT, save_text
from tests.engine.converters.tensorflow_graphs import GraphWriter
from tests.engine.converters.tflite_models import ModelFile

pytest.importorskip("onnx")
HUGE = 1 << 62


def parsed(header: str, *lines: str) -> bytes:
    import onnx as package

    parser: Any = package.parser
    text = f'<ir_version: 8, opset_import: ["" : 17]> g {header} {{ {" ".join(lines)} }}'
    made: bytes = parser.parse_model(text).SerializeToString()
    return made


# Inputs that are left out


def test_an_lstm_without_its_input() -> None:
    source = parsed(
        "(float[1,12,2] w, float[1,12,3] r) => (float[3,1,1,3] y)", 'y = LSTM ("", w, r)'
    )
    with pytest.raises(ModelError, match="node y: lstm: its input x is left out"):
        onnx.convert(source)


def test_inputs_are_missed_before_any_size_is_known() -> None:
    with pytest.raises(ModelError, match="node y: conv: its input w is left out"):
        onnx.convert(parsed("(float[n,3,h,w] x) => (float[n,4,a,b] y)", "y = Conv (x)"))
    with pytest.raises(ModelError, match="node y: transpose takes 1 inputs, got 2"):
        onnx.convert(parsed("(float[n] x) => (float[n] y)", "y = Transpose (x, x)"))


def test_inputs_are_missed_in_bodies() -> None:
    body = Graph({}, {"z": Type("float32", (3,))}, (Node("lstm", ("", "", ""), ("z",)),))
    branches: dict[str, Attr] = {"then_branch": body, "else_branch": body, "captures": 0}
    node = Node("if", ("c",), ("y",), branches)
    graph = Graph({"c": Type("bool", ("n",))}, {"y": Type("float32", (3,))}, (node,))
    with pytest.raises(ModelError, match="node z: lstm: its input x is left out"):
        infer_types(graph)


@pytest.mark.parametrize("name", sorted(registry()))
def test_every_op_without_its_inputs(name: str) -> None:
    """Each case with one input after the other left out: taken, or told by a PalmError."""
    for case in registry()[name].cases[:3]:
        whole = [x if isinstance(x, Type) or x is None else Type.of(x) for x in case.inputs]
        for gone in range(len(whole)):
            types = [None if place == gone else type for place, type in enumerate(whole)]
            names = tuple("" if type is None else f"x{i}" for i, type in enumerate(types))
            outputs = tuple(f"y{i}" for i in range(case.outputs))
            inputs = {f"x{i}": type for i, type in enumerate(types) if type is not None}
            graph = Graph(inputs, {}, (Node(name, names, outputs, case.attrs),))
            try:
                infer_types(graph)
            except PalmError as error:
                assert len(str(error).splitlines()) == 1


def test_outputs_that_an_op_has_not() -> None:
    with pytest.raises(ModelError, match="relu gives 1 outputs, the model names 2"):
        onnx.convert(parsed("(float[3] x) => (float[3] y)", "y, z = Relu (x)"))


# Sizes


def huge_onnx(tmp_path: Path) -> Path:
    path = tmp_path / "huge.onnx"
    path.write_bytes(parsed(f"(float[{HUGE},{HUGE}] x) => (float[a,b] y)", "y = Identity (x)"))
    return path


def huge_tflite(tmp_path: Path) -> Path:
    file = ModelFile()
    file.input("x", (2**31 - 1,) * 3)
    file.tensor("y", (2**31 - 1,) * 3)
    file.operator("RELU", ["x"], ["y"])
    path = tmp_path / "huge.tflite"
    path.write_bytes(file.pack(["y"]))
    return path


def huge_tensorflow(tmp_path: Path) -> Path:
    graph = GraphWriter()
    graph.placeholder("x", HUGE, HUGE)
    graph.node("Identity", "y", "x")
    path = tmp_path / "huge.pb"
    path.write_bytes(graph.bytes())
    return path


def huge_caffe(tmp_path: Path) -> Path:
    text = INPUT.replace("[1, 2, 4, 4]", "[2147483647, 2147483647, 2147483647]")
    return save_text(tmp_path, text + 'layer { name: "y" type: "AbsVal" bottom: "data" top: "y" }')


@pytest.mark.parametrize("make", [huge_caffe, huge_onnx, huge_tensorflow, huge_tflite])
def test_a_shape_that_no_memory_holds(make: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="more than 17592186044416 elements"):
        engine.convert(make(tmp_path))


@pytest.mark.parametrize(
    ("shape", "message"),
    [((HUGE,), "elements"), ((2,) * 33, "more than 32 dims"), ((3, -1), "a dim below 0")],
)
def test_types_that_no_value_has(shape: tuple[int, ...], message: str) -> None:
    type = Type("float32", shape)
    with pytest.raises(ModelError, match=message):
        check(Graph({"x": type}, {"x": type}, ()))


def test_values_of_many_dims() -> None:
    """numpy takes 64, of which it broadcasts 32."""
    constant = np.zeros((1,) * 40, np.float32)
    x = Type("float32", (2, 3))
    with pytest.raises(ModelError, match="constant c: more than 32 dims"):
        check(Graph({"x": x}, {"x": x}, (), {"c": constant}))
    axes = np.arange(2, 42)
    node = Node("unsqueeze", ("x", "axes"), ("y",))
    with pytest.raises(ShapeError, match="more than 32 dims"):
        infer_types(Graph({"x": x}, {}, (node,), {"axes": axes}))


@pytest.mark.parametrize(
    ("op", "types", "attrs"),
    [
        ("expand", [(3, 1), (3, 1)], {}),
        ("slice", [(3, 4), (1, 1), (1,)], {}),
        ("top_k", [(3, 4), (5,)], {}),
        ("range", [(), (9,), ()], {}),
    ],
)
def test_arguments_of_a_shape_that_they_cannot_have(
    op: str, types: list[tuple[int, ...]], attrs: dict[str, Any]
) -> None:
    """Refused although their values come with a run only."""
    names = tuple(f"x{i}" for i in range(len(types)))
    inputs = {name: Type("int64", shape) for name, shape in zip(names, types, strict=True)}
    with pytest.raises(ShapeError, match=f"{op}: "):
        infer_types(Graph(inputs, {}, (Node(op, names, ("y",), attrs),)))


def test_a_pad_of_several_numbers() -> None:
    x, value = Type("float32", (2,)), Type("float32", (3,))
    node = Node("pad", ("x", "pads", "value"), ("y",))
    graph = Graph({"x": x, "value": value}, {}, (node,), {"pads": np.array([1, 1])})
    with pytest.raises(ShapeError, match="pad: constant_value: expected one number"):
        infer_types(graph)


_ONE = np.ones((1, 1, 4), np.float32)
_SQUARE = np.ones((1, 1, 4, 4), np.float32)
_SAME = {"auto_pad": "SAME_UPPER"}
_ROIS = [np.ones((1, 1, 4, 4), np.float32), np.ones((1, 4), np.float32), np.zeros(1, np.int64)]
FOLDED: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "pads": ("max_pool", [_ONE], {"kernel_shape": (1 << 20,), "pads": (1 << 20, 1 << 20)}),
    "kernel": ("average_pool", [_SQUARE], {"kernel_shape": (1 << 13, 1 << 13), **_SAME}),
    "dilations": ("conv", [_SQUARE, _SQUARE], {"dilations": (1 << 13, 1 << 13), **_SAME}),
    "samples": ("roi_align", _ROIS, {"sampling_ratio": 1 << 29}),
    "sums": (
        "einsum",
        [np.ones(200, np.float32)] * 5,
        {"equation": "a,b,c,d,e->"},
    ),
    "nothing": (
        "crop_and_resize",
        [
            np.ones((1, 1, 2, 2), np.float32),
            np.zeros((0, 4), np.float32),
            np.zeros(0, np.int32),
            np.array([1 << 15, 1 << 15]),
        ],
        {},
    ),
}


@pytest.mark.parametrize("name", FOLDED)
def test_constants_that_take_much_work_are_left_for_the_run(name: str) -> None:
    """The results are small: types are known at once, values are not computed."""
    op, arrays, attrs = FOLDED[name]
    constants = {f"x{i}": value for i, value in enumerate(arrays)}
    graph = Graph({}, {}, (Node(op, tuple(constants), ("y",), attrs),), constants)
    assert not isinstance(infer_types(graph)["y"], Known)


def test_what_takes_little_work_is_folded() -> None:
    x = np.ones((1, 1, 9, 9), np.float32)
    attrs = {"kernel_shape": (7, 7), "pads": (3, 3, 3, 3), "dilations": (1, 1)}
    graph = Graph({}, {}, (Node("max_pool", ("x",), ("y",), attrs),), {"x": x})
    assert isinstance(infer_types(graph)["y"], Known)


@pytest.mark.parametrize(
    ("op", "constants", "attrs"),
    [
        ("resize", {"": 0, "sizes": np.array([1, 1, 1 << 30, 2])}, {}),
        ("gemm", {"w": np.zeros((4, 9), np.float32), "c": np.zeros(9, np.float32)}, {}),
    ],
)
def test_a_large_value_is_planned_soon(op: str, constants: Any, attrs: Any) -> None:
    """The plan takes no memory for what only a run would need."""
    dims = (1 << 31, 4) if op == "gemm" else (1, 1, 2, 2)
    out = (1 << 31, 9) if op == "gemm" else (1, 1, 1 << 30, 2)
    names = ("x", "", "", "sizes") if op == "resize" else ("x", "w", "c")
    given = {name: value for name, value in constants.items() if name}
    graph = Graph(
        {"x": Type("float32", dims)},
        {"y": Type("float32", out)},
        (Node(op, names, ("y",), attrs),),
        given,
    )
    assert Model(graph).fallbacks


EMPTY = Type("float32", (2, 0))
NOTHING: dict[str, tuple[str, dict[str, Type], dict[str, Any], dict[str, Any]]] = {
    "cum_sum of a scalar": ("cum_sum", {"x": Type("float32", ())}, {"axis": np.array(0)}, {}),
    "cum_sum along none": ("cum_sum", {"x": EMPTY, "axis": Type("int64", (0,))}, {}, {}),
    "cum_prod outside": ("cum_prod", {"x": EMPTY}, {"axis": np.array(9)}, {}),
    "trilu": ("trilu", {"x": EMPTY, "k": Type("int64", (0,))}, {}, {}),
    "dropout": ("dropout", {"x": EMPTY, "ratio": Type("float32", (0,))}, {}, {}),
    "pad": ("pad", {"x": EMPTY}, {"pads": np.array([0, 1, 0, 1])}, {"mode": "edge"}),
}


@pytest.mark.parametrize("name", NOTHING)
def test_what_cannot_be_done_with_nothing(name: str) -> None:
    op, inputs, constants, attrs = NOTHING[name]
    graph = Graph(inputs, {}, (Node(op, (*inputs, *constants), ("y",), attrs),), constants)
    with pytest.raises(ShapeError, match=f"{op}:"):
        infer_types(graph)


def test_an_input_of_a_narrow_dtype_that_nothing_reads() -> None:
    pytest.importorskip("ml_dtypes")
    x, like = Type("float32", (2,)), Type("float8_e5m2", (0,))
    graph = Graph({"x": x, "like": like}, {"y": x}, (Node("relu", ("x",), ("y",)),))
    given = {"x": np.array([-1, 2], np.float32), "like": np.zeros(0, like.dtype)}
    assert Model(graph).run(given)["y"].tolist() == [0, 2]


def test_the_mean_of_nothing_is_no_warning() -> None:
    x = Type("float32", (2, 0))
    node = Node("reduce_mean", ("x", "axes"), ("y",), {"keepdims": 0})
    y = Type("float32", (2,))
    graph = Graph({"x": x}, {"y": y}, (node,), {"axes": np.array([1])})
    got = Model(graph, "reference").run({"x": np.zeros((2, 0), np.float32)})["y"]
    assert np.isnan(got).all()


def picks_in_many_batches(graph: GraphWriter) -> None:
    graph.const("places", [0], "int32")
    graph.const("axis", 1, "int32")
    graph.node("GatherV2", "y", "x", "places", "axis", batch_dims=1 << 40)


def slices_many_axes(graph: GraphWriter) -> None:
    graph.placeholder("starts", 1 << 40, dtype="int32")
    graph.node("Slice", "y", "x", "starts", "starts")


def slices_at_many_indices(graph: GraphWriter) -> None:
    graph.const("many", [1] * 1000, "int32")
    graph.node("StridedSlice", "y", "x", "many", "many", "many", ellipsis_mask=1)


@pytest.mark.parametrize("wrong", [picks_in_many_batches, slices_many_axes, slices_at_many_indices])
def test_counts_of_axes_that_no_value_has(wrong: Any) -> None:
    """They are not counted up to first."""
    graph = GraphWriter()
    graph.placeholder("x", 2, 3)
    wrong(graph)
    with pytest.raises(ModelError, match="batch axes|starts of|indices are too many"):
        tensorflow.convert(graph.bytes())


# Errors


@pytest.mark.parametrize(
    "error", [*(kind() for kind in DAMAGE), RecursionError(), OverflowError(), UnicodeError()]
)
def test_whatever_reading_runs_into_is_one_error(error: Exception) -> None:
    with (
        pytest.raises(ModelError, match=r"damaged Some model: there\.some: "),
        damage_as_model_error("Some", "there.some"),
    ):
        raise error


def test_errors_keep_their_kind_and_name_the_file() -> None:
    for error in (ModelError("m"), UnsupportedError("u")):
        with (
            pytest.raises(type(error), match=r"^there: [mu]$"),
            damage_as_model_error("S", "there"),
        ):
            raise error
    with pytest.raises(ModelError, match="contradicts itself"), damage_as_model_error("S", "there"):
        raise ShapeError("s")


def test_an_error_is_one_line_whatever_names_a_file_has() -> None:
    assert str(ModelError("a\nb\r\nc")) == "a b c"
    long = str(ModelError("begin " + "x" * 10**6 + " end"))
    assert len(long) <= 16_000
    assert long.startswith("begin x")
    assert long.endswith("x end")


def test_names_of_several_lines() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 3)
    graph.node("Magic\ntrick", "y\nz", "x")
    with pytest.raises(UnsupportedError, match=r"Magic trick \(1: y z\)"):
        tensorflow.convert(graph.bytes())


def test_a_message_that_nests_deep(tmp_path: Path) -> None:
    """Protobuf stops at 100; its text reader and the walks over what is read must stop, too."""
    text = "layer { " * 5000
    path = tmp_path / "deep.prototxt"
    path.write_text(text)
    with pytest.raises(PalmError):
        caffe.convert(path)
    pbtxt = tmp_path / "deep.pbtxt"
    pbtxt.write_text("node { attr { value { func { attr { value { " * 2000)
    with pytest.raises(PalmError):
        tensorflow.convert(pbtxt)


def test_bytes_that_are_no_model() -> None:
    chance = random.Random(0)
    for _ in range(200):
        data = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 80)))
        for convert in (onnx.convert, tensorflow.convert, tflite.convert):
            with pytest.raises(PalmError):
                convert(data)


# The fuzzer, for a while; `make fuzz-converters` runs it for as long as is wanted.

MUTANTS = {"caffe": 150, "lightgbm": 150, "onnx": 150, "tensorflow": 120, "tflite": 150}


@pytest.mark.parametrize("format", fuzz_seeds.SEEDS)
def test_damaged_models(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Converted and run, or refused in one line: nothing else comes of a damaged model."""
    if format == "onnx":
        monkeypatch.setattr(fuzz, "seeds", few_onnx_seeds)
    outcomes: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(MUTANTS[format]):
            chosen, files = fuzz.case(format, 77, number)
            if sum(map(len, files.values())) > 100_000:
                continue
            fuzz.write(tmp_path / "model", files)
            size = sum(map(len, files.values()))
            outcomes.add(fuzz.attempt(tmp_path / "model" / chosen.main, size))
    assert {"runs", "refused: ModelError", "refused: UnsupportedError"} <= outcomes


def few_onnx_seeds(format: str) -> tuple[fuzz_seeds.Seed, ...]:
    """Without the node tests, which take seconds to make."""
    assert format == "onnx"
    return tuple(fuzz_seeds.onnx_seeds(with_nodes=False))


def test_a_case_is_made_of_its_number_alone() -> None:
    first = [fuzz.case("caffe", 3, number)[1] for number in (5, 6)]
    assert fuzz.case("caffe", 3, 6)[1] == first[1] != first[0]
    assert fuzz.case("caffe", 4, 6)[1] != first[1]


def test_the_fuzzer_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of another kind, of several lines' kin, or that hides how memory ran out."""

    def broken(path: Path) -> Graph:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(engine, "convert", broken)
    with pytest.raises(IndexError):
        fuzz.attempt(tmp_path, 1)

    def hungry(path: Path) -> Graph:
        with damage_as_model_error("Some", "there"):
            raise MemoryError
        raise AssertionError

    monkeypatch.setattr(engine, "convert", hungry)
    with pytest.raises(fuzz.Failure, match="asked for more memory"):
        fuzz.attempt(tmp_path, 1)


def test_structure_is_damaged_not_only_bytes() -> None:
    """Most of 60 mutants of a flatbuffer, and of a message, can still be read as such."""
    chance = random.Random(0)
    for format in ("tflite", "tensorflow"):
        seed = fuzz_seeds.seeds(format)[0]
        part = next(iter(seed.parts.values()))
        readable = 0
        for _ in range(60):
            data = next(iter(fuzz_changes.damaged(seed, chance).values()))
            if format == "tflite":
                readable += data[4:8] == b"TFL3" and data != part.data
                continue
            try:
                part.message.FromString(data)
                readable += 1
            except Exception:  # noqa: BLE001
                continue
        assert readable > 30
