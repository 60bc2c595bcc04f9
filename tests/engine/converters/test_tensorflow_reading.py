"""What of a TensorFlow file becomes an input, an output, a constant; and layouts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.converters import tensorflow
from palmkit.engine.converters.tensorflow.schema import messages
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from tests.engine.converters.tensorflow_graphs import GraphWriter, archive, set_attr

pytest.importorskip("google.protobuf")

rng = np.random.default_rng(4)


def normal(*shape: int) -> Array:
    return rng.normal(0, 1, shape).astype(np.float32)


def run(graph: GraphWriter, **inputs: Array) -> dict[str, Array]:
    return Model(tensorflow.convert(graph.bytes()), "reference").run(inputs)


def test_outputs_are_what_nobody_reads() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 4)
    graph.placeholder("unused", 4)
    graph.const("axis", 0, "int32")
    graph.node("Split", "parts", "axis", "x", num_split=2)
    graph.node("Relu", "relu", "x")
    graph.node("Greater", "is_sound", "relu", "axis")
    graph.node("Assert", "assert", "is_sound", "relu")
    graph.node("NoOp", "init", "^relu")
    graph.node("Identity", "y", "relu:0", "^assert")
    converted = tensorflow.convert(graph.bytes())
    assert [*converted.inputs] == ["x"]
    assert [*converted.outputs] == ["parts", "parts:1", "y"]
    assert {node.op for node in converted.nodes} == {"split", "relu", "identity"}


def test_an_input_that_is_an_output() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 2)
    graph.node("Identity", "y", "x")
    graph.node("Identity", "z", "y")
    graph.node("Identity", "w", "y")
    got = run(graph, x=np.array([1, 2], np.float32))
    assert {name: value.tolist() for name, value in got.items()} == {"z": [1, 2], "w": [1, 2]}


@pytest.mark.parametrize("dims", [(), (2,)])
def test_a_default_is_taken_or_asked_for(dims: tuple[int, ...]) -> None:
    """One number keeps its default, an array is an input."""
    graph = GraphWriter()
    graph.placeholder("x", 2)
    graph.const("default", np.full(dims, 3.0))
    shape = messages()["AttrValue"]()
    shape.shape.SetInParent()
    for dim in dims:
        shape.shape.dim.add(size=dim)
    dtype = np.dtype("float32")
    graph.node("PlaceholderWithDefault", "scale", "default", dtype=dtype, shape=shape)
    graph.node("Mul", "y", "x", "scale")
    converted = tensorflow.convert(graph.bytes())
    assert [*converted.inputs] == (["x", "scale"] if dims else ["x"])
    x = np.array([1, 2], np.float32)
    inputs = {"x": x, "scale": x} if dims else {"x": x}
    wanted = x * x if dims else x * 3
    np.testing.assert_array_equal(Model(converted, "reference").run(inputs)["y"], wanted)


STORED: list[tuple[str, str, list[Any], Any]] = [
    ("float32", "float_val", [1.5, 2.5], [1.5, 2.5, 2.5, 2.5]),
    ("float64", "double_val", [1.5], [1.5] * 4),
    ("int32", "int_val", [1, -2, 3, 4], [1, -2, 3, 4]),
    ("int8", "int_val", [-1], [-1] * 4),
    ("uint8", "int_val", [200, 7], [200, 7, 7, 7]),
    ("int64", "int64_val", [1 << 40], [1 << 40] * 4),
    ("uint32", "uint32_val", [1 << 31], [1 << 31] * 4),
    ("uint64", "uint64_val", [1 << 63], [1 << 63] * 4),
    ("bool", "bool_val", [True, False], [True, False, False, False]),
    ("float16", "half_val", [0x3E00], [1.5] * 4),
    ("bfloat16", "half_val", [0x3FC0, 0x4000], [1.5, 2, 2, 2]),
    ("float32", "float_val", [], [0] * 4),
]


@pytest.mark.parametrize(("dtype", "field", "stored", "wanted"), STORED)
def test_constants(dtype: str, field: str, stored: list[Any], wanted: list[Any]) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    graph = GraphWriter()
    attr = messages()["AttrValue"]()
    set_attr(attr, np.zeros(0, "float32"))
    attr.tensor.Clear()
    numbers = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int8": 6, "int64": 9}
    numbers |= {"bool": 10, "bfloat16": 14, "float16": 19, "uint32": 22, "uint64": 23}
    attr.tensor.dtype = numbers[dtype]
    attr.tensor.tensor_shape.dim.add(size=2)
    attr.tensor.tensor_shape.dim.add(size=2)
    getattr(attr.tensor, field).extend(stored)
    graph.node("Const", "c", value=attr)
    graph.node("Identity", "y", "c")
    (got,) = run(graph).values()
    assert got.dtype.name == dtype
    assert got.reshape(-1).tolist() == wanted


def pictures(layout: str) -> tuple[GraphWriter, str]:
    """Every operator that knows layouts, one behind the other."""

    def axes(first: int, height: int, width: int, last: int) -> tuple[int, ...]:
        by_axis = {"N": first, "H": height, "W": width, "C": last}
        return tuple(by_axis[axis] for axis in layout)

    chance = np.random.default_rng(5)
    graph = GraphWriter()
    graph.placeholder("x", *axes(1, 9, 10, 4))

    def const(name: str, *shape: int) -> str:
        return graph.const(name, chance.uniform(0.1, 1, shape))

    how = {"data_format": layout}
    pads: list[int] = []
    for before, after in ((0, 0), (1, 0), (0, 2), (0, 0)):
        pads += [before, after]
    by_axis = {axis: pads[2 * k : 2 * k + 2] for k, axis in enumerate("NHWC")}
    explicit = tuple(pad for axis in layout for pad in by_axis[axis])
    last = graph.node(
        "Conv2D",
        "conv",
        "x",
        const("w", 3, 3, 4, 8),
        strides=axes(1, 2, 1, 1),
        padding="EXPLICIT",
        explicit_paddings=explicit,
        **how,
    )
    last = graph.node("BiasAdd", "bias", last, const("b", 8), **how)
    numbers = [const(f"norm{k}", 8) for k in range(4)]
    last = graph.node("FusedBatchNormV3", "norm", last, *numbers, is_training=False, **how)
    last = graph.node("FusedBatchNorm", "batch", last, *numbers, **how)
    last = graph.node(
        "DepthwiseConv2dNative",
        "depthwise",
        last,
        const("d", 3, 3, 8, 1),
        strides=axes(1, 1, 1, 1),
        padding="SAME",
        **how,
    )
    windows: dict[str, Any] = {"ksize": axes(1, 2, 3, 1), "strides": axes(1, 1, 2, 1)}
    last = graph.node("MaxPool", "max", last, padding="SAME", **windows, **how)
    last = graph.node("AvgPool", "mean", last, padding="VALID", **windows, **how)
    last = graph.node("DepthToSpace", "blocks", last, block_size=2, **how)
    sizes = graph.const("sizes", axes(1, 12, 9, 3), "int32")
    strides = axes(1, 2, 2, 1)
    turned = const("t", 3, 3, 3, 2)
    graph.node(
        "Conv2DBackpropInput", "y", sizes, turned, last, strides=strides, padding="SAME", **how
    )
    return graph, "y"


def test_layouts_agree() -> None:
    x = normal(1, 9, 10, 4)
    last = run(pictures("NHWC")[0], x=x)["y"]
    first = run(pictures("NCHW")[0], x=x.transpose(0, 3, 1, 2))["y"]
    assert last.shape == (1, 12, 9, 3)
    np.testing.assert_allclose(first.transpose(0, 2, 3, 1), last, atol=1e-5 * np.ptp(last))


def test_fused_operators_are_their_parts() -> None:
    """What TensorFlow's optimiser fuses is what it is made of."""
    x, w, b = normal(1, 5, 5, 3), normal(3, 3, 3, 4), normal(4)
    results: list[Array] = []
    for is_fused in (True, False):
        graph = GraphWriter()
        graph.placeholder("x", 1, 5, 5, 3)
        graph.const("w", w)
        graph.const("b", b)
        how: dict[str, Any] = {"strides": (1, 1, 1, 1), "padding": "SAME"}
        if is_fused:
            names = messages()["AttrValue"]()
            names.list.s.extend([b"BiasAdd", b"Relu6"])
            graph.node("_FusedConv2D", "y", "x", "w", "b", fused_ops=names, **how)
        else:
            graph.node("Conv2D", "conv", "x", "w", **how)
            graph.node("BiasAdd", "bias", "conv", "b")
            graph.node("Relu6", "y", "bias")
        results.append(run(graph, x=x)["y"])
    np.testing.assert_array_equal(results[0], results[1])
    assert 0 < results[0].max() <= 6


def test_a_constant_condition_chooses_at_once() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 2)
    graph.const("is_training", False, "bool")
    graph.node("Switch", "switch", "x", "is_training")
    graph.node("Frobnicate", "training", "switch:1")
    graph.node("Neg", "running", "switch:0")
    graph.node("Merge", "merge", "running", "training")
    graph.node("Identity", "y", "merge")
    converted = tensorflow.convert(graph.bytes())
    assert [node.op for node in converted.nodes] == ["neg", "identity"]


def test_engine_reads_folders_and_files(tmp_path: Path) -> None:
    """The public functions read the model, and a .palm file of it gives the same."""
    arrays = archive("models.npz.xz")["looped"]
    for key, data in arrays.items():
        if key.startswith("file:"):
            path = tmp_path / "saved" / key.removeprefix("file:")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())
    frozen = tmp_path / "frozen.pb"
    frozen.write_bytes(arrays["graph"].tobytes())
    text = tmp_path / "saved_text"
    text.mkdir()
    message = messages()["SavedModel"].FromString(arrays["file:saved_model.pb"].tobytes())
    (text / "saved_model.pbtxt").write_text(str(message))
    (tmp_path / "saved" / "variables").rename(text / "variables")
    inputs = {"x0": arrays["in:x0"]}
    wanted = engine.load(text).run(inputs)
    np.testing.assert_allclose(wanted["y0"], arrays["out:y0"], atol=1e-5)
    (text / "variables").rename(tmp_path / "saved" / "variables")
    engine.save(engine.convert(tmp_path / "saved"), tmp_path / "model.palm")
    for path in (
        tmp_path / "saved",
        tmp_path / "saved" / "saved_model.pb",
        tmp_path / "model.palm",
    ):
        for name, value in engine.load(path).run(inputs).items():
            np.testing.assert_array_equal(value, wanted[name])
    (name,) = engine.load(frozen).inputs
    for value in engine.load(frozen).run({name: inputs["x0"]}).values():
        assert any(
            np.allclose(value, each, atol=1e-6)
            for each in wanted.values()
            if each.shape == value.shape
        )
