"""TensorFlow models give the numbers that TensorFlow gave when they were recorded."""

from pathlib import Path

import numpy as np
import pytest

from palmkit.engine.converters import tensorflow
from palmkit.engine.converters.tensorflow.schema import messages
from palmkit.engine.ir import Array, Graph, Type
from palmkit.engine.model import Model
from palmkit.engine.passes import optimise
from tests.engine.converters.tensorflow_graphs import archive, named, with_shapes

pytest.importorskip("google.protobuf")

OPERATORS = archive("operators.npz.xz")
MODELS = archive("models.npz.xz")


def assert_agrees(graph: Graph, inputs: dict[str, Array], wanted: dict[str, Array]) -> None:
    """To 1e-4 of the range of each output, on both backends; dtypes and shapes exactly."""
    assert sorted(graph.inputs) == sorted(inputs)
    for backend in ("reference", "cpu"):
        got = Model(graph, backend).run(inputs)
        assert sorted(got) == sorted(wanted)
        for name, value in wanted.items():
            assert Type.of(got[name]) == Type.of(value)
            if value.dtype.kind == "f":
                finite = value[np.isfinite(value)].astype(np.float64)
                spread = np.ptp(finite) if finite.size > 1 else np.abs(finite).max(initial=0)
                np.testing.assert_allclose(got[name], value, rtol=0, atol=1e-4 * spread)
            else:
                np.testing.assert_array_equal(got[name], value)


def assert_declares(graph: Graph, wanted: dict[str, Array]) -> None:
    """The graph says of its outputs what is so, at least the rank."""
    for name, value in wanted.items():
        declared = graph.outputs[name]
        assert declared.dtype == value.dtype.name
        assert len(declared.shape) == value.ndim
        for dim, size in zip(declared.shape, value.shape, strict=True):
            assert dim == size or isinstance(dim, str)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str) -> None:
    case = OPERATORS[name]
    inputs, wanted = named(case, "in:"), named(case, "out:")
    graph = tensorflow.convert(case["graph"].tobytes())
    assert_agrees(graph, inputs, wanted)
    if name != "gather_nd":
        assert_declares(graph, wanted)


@pytest.mark.parametrize("name", [name for name in OPERATORS if not name.endswith("_lowered")])
def test_operator_of_static_shape(name: str) -> None:
    case = OPERATORS[name]
    inputs, wanted = named(case, "in:"), named(case, "out:")
    graph = tensorflow.convert(with_shapes(case["graph"].tobytes(), inputs))
    assert_agrees(graph, inputs, wanted)
    assert_declares(graph, wanted)


def saved_model(name: str, folder: Path) -> Path:
    """The SavedModel of a case, unpacked."""
    for key, data in MODELS[name].items():
        if key.startswith("file:"):
            path = folder / key.removeprefix("file:")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_saved_model(name: str, tmp_path: Path) -> None:
    wanted = named(MODELS[name], "out:")
    graph = tensorflow.convert(saved_model(name, tmp_path))
    assert_agrees(graph, named(MODELS[name], "in:"), wanted)
    assert_declares(graph, wanted)
    from_file = tensorflow.convert(tmp_path / "saved_model.pb")
    assert [*map(str, from_file.nodes)] == [*map(str, graph.nodes)]


@pytest.mark.parametrize("name", MODELS)
def test_frozen_model(name: str) -> None:
    wanted = named(MODELS[name], "frozen_out:")
    graph = tensorflow.convert(MODELS[name]["graph"].tobytes())
    assert_agrees(graph, named(MODELS[name], "frozen_in:"), wanted)
    assert_declares(graph, wanted)


def test_text_is_read_like_bytes(tmp_path: Path) -> None:
    data = MODELS["switched"]["graph"].tobytes()
    path = tmp_path / "graph.pbtxt"
    path.write_text(str(messages()["GraphDef"].FromString(data)))
    assert tensorflow.recognises(path.read_bytes()[:64])
    from_text, from_bytes = tensorflow.convert(path), tensorflow.convert(data)
    assert [*map(str, from_text.nodes)] == [*map(str, from_bytes.nodes)]
    for key, value in from_bytes.constants.items():
        np.testing.assert_array_equal(from_text.constants[key], value)


@pytest.mark.parametrize("size", [(12, 20), (16, 8), (4, 4)])
def test_an_open_size_takes_any(size: tuple[int, int]) -> None:
    graph = tensorflow.convert(MODELS["encoder_decoder"]["graph"].tobytes())
    (name,) = graph.inputs
    x = np.ones((2, *size, 3), np.float32)
    (y,) = Model(graph, "cpu").run({name: x}).values()
    assert y.shape == (2, *size, 2)


def test_an_input_of_unknown_rank() -> None:
    """A convolution tells it."""
    case = OPERATORS["conv"]
    inputs, wanted = named(case, "in:"), named(case, "out:")
    message = messages()["GraphDef"].FromString(case["graph"].tobytes())
    for node in message.node:
        if node.op == "Placeholder":
            del node.attr["shape"]
    graph = tensorflow.convert(message.SerializeToString())
    assert [len(type.shape) for type in graph.inputs.values()] == [4]
    assert_agrees(graph, inputs, wanted)
    assert_declares(graph, wanted)


def test_layouts_cancel() -> None:
    """Transposes are left at the border, before the reshape, and nowhere else."""
    case = MODELS["convolutional"]
    (name,) = named(case, "frozen_in:")
    inputs = {name: case[f"frozen_in:{name}:0"]}
    graph = optimise(tensorflow.convert(with_shapes(case["graph"].tobytes(), inputs)))
    assert sum(node.op == "transpose" for node in graph.nodes) <= 2


def test_dilated_convolutions_are_found() -> None:
    for name in ("atrous", "atrous_valid", "depthwise_dilated"):
        graph = tensorflow.convert(OPERATORS[name]["graph"].tobytes())
        (conv,) = [node for node in graph.nodes if node.op == "conv"]
        assert conv.attrs["dilations"] in ((2, 2), (3, 3))
        assert all(len(str(node.attrs.get("perm", ""))) < 15 for node in graph.nodes)


@pytest.mark.parametrize("name", [*OPERATORS, *MODELS])
def test_recognises(name: str) -> None:
    case = {**MODELS, **OPERATORS}[name]
    for key, data in case.items():
        if key in ("graph", "file:saved_model.pb"):
            assert tensorflow.recognises(data.tobytes()[:64])


def test_does_not_recognise_others() -> None:
    for start in (
        b"\x08\x08\x12\x07pytorch",
        b"\x0a\x06yunet\x12\x06",
        b"name: 'net'",
        b"\0\0\0\0PALM",
    ):
        assert not tensorflow.recognises(start)
