"""A loaded model: its checks, its plans, its threads."""

import gc
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.ir import Array, Graph, Node, Type


def small_network() -> Graph:
    """Convolution, activation and resize over an image of any size."""
    random = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "w": random.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "b": random.normal(size=8).astype(np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    nodes = (
        Node("conv", ("x", "w", "b"), ("c",), {"pads": (1, 1, 1, 1), "strides": (2, 2)}),
        Node("relu", ("c",), ("r",)),
        Node("resize", ("r", "", "scales"), ("y",), {"mode": "nearest"}),
    )
    image = Type("float32", (1, 3, "height", "width"))
    outputs = {"y": Type("float32", (1, 8, "rows", "columns"))}
    return Graph({"x": image}, outputs, nodes, constants, {"name": "small"})


@pytest.fixture
def model(tmp_path: Path) -> engine.Model:
    engine.save(small_network(), tmp_path / "small.palm")
    return engine.load(tmp_path / "small.palm")


def image(height: int, width: int, seed: int = 0) -> dict[str, Array]:
    shape = (1, 3, height, width)
    return {"x": np.random.default_rng(seed).normal(size=shape).astype(np.float32)}


def test_every_size_agrees_with_the_reference(model: engine.Model) -> None:
    reference = engine.Model(small_network(), "reference")
    for height, width in [(8, 8), (6, 10), (32, 4), (8, 8)]:
        inputs = image(height, width)
        expected = reference.run(inputs)["y"]
        np.testing.assert_allclose(model.run(inputs)["y"], expected, rtol=1e-5, atol=1e-5)


def test_tells_its_inputs_outputs_and_metadata(model: engine.Model) -> None:
    assert str(model.inputs["x"]) == "float32[1, 3, height, width]"
    assert list(model.outputs) == ["y"]
    assert model.metadata["name"] == "small"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, r"input x: expected float32\[1, 3, height, width\], got nothing"),
        ({"z": np.zeros(1)}, "no input 'z'; the model's inputs: x"),
        (np.zeros(1), "expected a dict with an array for each of x, got ndarray"),
        ([np.zeros(1)], "expected a dict with an array for each of x, got list"),
        ({"x": np.zeros((1, 3, 8, 8))}, r"got float64\[1, 3, 8, 8\]"),
        ({"x": np.zeros((1, 4, 8, 8), np.float32)}, r"got float32\[1, 4, 8, 8\]"),
        ({"x": np.zeros((3, 8, 8), np.float32)}, r"got float32\[3, 8, 8\]"),
    ],
)
def test_wrong_input_is_a_shape_error(
    model: engine.Model, inputs: dict[str, Array], message: str
) -> None:
    with pytest.raises(engine.ShapeError, match=message):
        model.run(inputs)


def test_many_threads_share_one_model(model: engine.Model) -> None:
    expected = {seed: model.run(image(32, 32, seed))["y"] for seed in range(4)}

    def run(seed: int) -> Array:
        return model.run(image(32, 32, seed))["y"]

    seeds = [i % 4 for i in range(64)]
    with ThreadPoolExecutor(8) as pool:
        for seed, got in zip(seeds, pool.map(run, seeds), strict=True):
            np.testing.assert_array_equal(got, expected[seed])


def test_non_contiguous_input_is_read_right(model: engine.Model) -> None:
    wide = np.random.default_rng(0).normal(size=(1, 3, 16, 32)).astype(np.float32)
    part = wide[:, :, ::2, ::4]
    expected = model.run({"x": np.ascontiguousarray(part)})["y"]
    np.testing.assert_array_equal(model.run({"x": part})["y"], expected)


def test_nan_comes_out_as_nan(model: engine.Model) -> None:
    inputs = image(8, 8)
    inputs["x"][...] = np.nan
    assert np.isnan(model.run(inputs)["y"]).all()


def test_threads_change_nothing() -> None:
    inputs = image(64, 48)
    one, two = (engine.Model(small_network(), threads=n).run(inputs)["y"] for n in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_runs_on_after_a_fork() -> None:
    model = engine.Model(small_network(), threads=2)
    inputs = image(64, 48)
    expected = model.run(inputs)["y"]
    child = os.fork()
    if child == 0:
        same = np.array_equal(model.run(inputs)["y"], expected)
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_its_memory_is_freed_with_it(model: engine.Model) -> None:
    gc.disable()
    try:
        other = engine.Model(model.graph)
        other.run(image(8, 8))
        found = weakref.ref(other)
        del other
        assert found() is None
    finally:
        gc.enable()


def test_profile_has_a_time_for_every_step(model: engine.Model) -> None:
    times = model.profile(image(16, 16), runs=3)
    assert [time.op for time in times].count("conv") == 1
    assert all(time.seconds >= 0 for time in times)


def test_empty_image_is_an_error_or_empty(model: engine.Model) -> None:
    try:
        assert model.run(image(0, 8))["y"].size == 0
    except engine.PalmError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"backend": "tpu"}, engine.BackendError, "no backend 'tpu'; known: reference, cpu"),
        ({"threads": 0}, ValueError, "threads: expected at least 1, got 0"),
        ({"precision": "int8"}, ValueError, "precision: expected one of"),
    ],
)
def test_bad_options(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        engine.Model(small_network(), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.palm", b"", "model file is empty"),
        ("notes.onnx", b"not a model, just some text that goes on for a while", "notes.onnx"),
        ("notes.txt", b"not a model", r"expected a model \(\.palm, \.onnx, \.tflite, \.pb"),
        ("short.tflite", b"\x1c\x00\x00\x00TFL3", "short.tflite"),
        ("short.palm", b"\x1c\x00\x00\x00PALM", "short.palm"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(engine.ModelError, match=message):
        engine.load(tmp_path / name)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(engine.ModelError, match=r"cannot read model .*gone\.palm: No such file"):
        engine.load(tmp_path / "gone.palm")
    with pytest.raises(engine.ModelError, match="the folder has no saved_model.pb"):
        engine.load(tmp_path)


def partly_native() -> Graph:
    """Convolutions round what has no kernel: float64 arithmetic, and a result of unknown size."""
    nodes = (
        Node("conv", ("x", "w"), ("a",), name="before"),
        Node("cast", ("a",), ("wide",), {"to": "float64"}, "widen"),
        Node("sin", ("wide",), ("s",), name="sine"),
        Node("cast", ("s",), ("b",), {"to": "float32"}, "narrow"),
        Node("non_zero", ("b",), ("places",), name="places"),
        Node("transpose", ("places",), ("rows",), {"perm": (1, 0)}),
        Node("gather", ("rows", "first"), ("y",), {"axis": 1}, "columns"),
        Node("relu", ("b",), ("z",), name="after"),
        Node("sigmoid", ("kept",), ("k",), name="late"),
        Node("gather_nd", ("b", "rows"), ("kept",)),
    )
    constants: dict[str, Array] = {
        "w": np.random.default_rng(0).normal(size=(4, 3, 1, 1)).astype(np.float32),
        "first": np.array([0]),
    }
    outputs = {
        "y": Type("int64", ("n", 1)),
        "z": Type("float32", (1, 4, "h", "w")),
        "k": Type("float32", ("n",)),
    }
    ordered = (*nodes[:8], nodes[9], nodes[8])
    return Graph({"x": Type("float32", (1, 3, "h", "w"))}, outputs, ordered, constants)


def test_what_has_no_kernel_runs_in_numpy() -> None:
    graph = partly_native()
    native, reference = engine.Model(graph), engine.Model(graph, "reference")
    for height, width in [(5, 7), (8, 4), (5, 7)]:
        inputs = image(height, width)
        inputs["x"][:, :, 0] = 0
        wanted, got = reference.run(inputs), native.run(inputs)
        assert list(got) == list(wanted) == ["y", "z", "k"]
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
    assert "places" in native.fallbacks
    assert not {"a", "z", "k"} & native.fallbacks.keys()
    assert not reference.fallbacks
    assert {step.node for step in native.profile(inputs)} >= {"before", "places", "after", "late"}


def test_numpy_parts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "palmkit.engine"):
        engine.Model(partly_native()).run(image(5, 7))
    assert "runs in numpy: places (non_zero)" in caplog.text


def test_option_of_another_format_is_refused(tmp_path: Path) -> None:
    engine.save(small_network(), tmp_path / "small.palm")
    with pytest.raises(ValueError, match="weights: expected with a Caffe model only"):
        engine.convert(tmp_path / "small.palm", weights="small.caffemodel")
    with pytest.raises(ValueError, match="signature: expected with a TensorFlow model only"):
        engine.convert(tmp_path / "small.palm", signature="serving_default")
