"""The ONNX converter: old opsets against ONNX Runtime, published networks, broken files."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.backends.reference import Reference
from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Type

onnx: Any = pytest.importorskip("onnx")

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"
PEER_EPSILON = 2e-7
"""ONNX Runtime's sigmoid errs by that much of its range, 0..1."""


def model(opset: int, signature: str, *lines: str) -> bytes:
    """The bytes of a model: `signature` and `lines` in the syntax of onnx.parser."""
    body = "\n".join(lines)
    text = f'<ir_version: 7, opset_import: ["" : {opset}]> g {signature} {{ {body} }}'
    made: bytes = onnx.parser.parse_model(text).SerializeToString()
    return made


def with_weight(source: bytes, w: Array) -> bytes:
    """The model with an initialiser w."""
    proto = onnx.load_model_from_string(source)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    made: bytes = proto.SerializeToString()
    return made


def run(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    return Reference().compile(graph).run(inputs)


def run_peer(source: bytes | Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    runtime: Any = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(3)
    session = runtime.InferenceSession(
        source if isinstance(source, bytes) else str(source), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(inputs)), strict=True))


def assert_agrees(source: bytes | Path, inputs: Mapping[str, Array]) -> Graph:
    graph = convert(source)
    got, wanted = run(graph, inputs), run_peer(source, inputs)
    assert list(got) == list(wanted) == list(graph.outputs)
    for name, peer in wanted.items():
        assert Type.of(got[name]) == Type.of(peer)
        spread = float(max(peer.max(initial=0), 0) - min(peer.min(initial=0), 0))
        np.testing.assert_allclose(got[name], peer, rtol=0, atol=1e-4 * spread + PEER_EPSILON)
    return graph


OLD_MODELS = [
    (7, "(float[2,12] x) => (float[2,12] y)", "y = Clip <min=-0.5, max=0.25> (x)"),
    (7, "(float[2,12] x) => (float[2,12] y)", "y = Clip <max=0.25> (x)"),
    (7, "(float[2,12] x) => (float[3,15] y)", "y = Pad <pads=[0,1,1,2], value=1.5> (x)"),
    (7, "(float[2,12] x) => (float[2,15] y)", 'y = Pad <pads=[0,1,0,2], mode="edge"> (x)'),
    (9, "(float[2,12] x) => (float[1,12] y)", "y = Slice <axes=[0], starts=[-1], ends=[9]> (x)"),
    (9, "(float[2,12] x) => (float[1,4] y)", "y = Slice <starts=[0,8], ends=[1,99]> (x)"),
    (
        10,
        "(float[2,12] x) => (float[2,4] y, float[2,8] z)",
        "y, z = Split <axis=1, split=[4,8]> (x)",
    ),
    (11, "(float[2,12] x) => (float[2,6] y, float[2,6] z)", "y, z = Split <axis=-1> (x)"),
    (13, "(float[2,12] x) => (float[2,6] y, float[2,6] z)", "y, z = Split <axis=1> (x)"),
    (11, "(float[2,12] x) => (float[2,1,12,1] y)", "y = Unsqueeze <axes=[1,3]> (x)"),
    (
        11,
        "(float[2,12] x) => (float[2,12] y)",
        "a = Unsqueeze <axes=[0,3]> (x)",
        "y = Squeeze <axes=[0,3]> (a)",
    ),
    (11, "(float[2,12] x) => (float[12] y)", "y = ReduceSum <axes=[0], keepdims=0> (x)"),
    (13, "(float[2,12] x) => (float[2,1] y)", "y = ReduceMean <axes=[-1]> (x)"),
    (17, "(float[2,12] x) => (float[1,1] y)", "y = ReduceL2 (x)"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax (x)"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = LogSoftmax <axis=2> (x)"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax <axis=0> (x)"),
    (11, "(float[2,3,4] x) => (float[2,3,4] y)", "y = Softmax <axis=-1> (x)"),
    (
        7,
        "(float[1,2,3,4] x) => (float[1,2,6,12] y)",
        'y = Upsample <scales=[1.0,1.0,2.0,3.0], mode="nearest"> (x)',
    ),
    (
        9,
        "(float[1,2,3,4] x) => (float[1,2,6,8] y)",
        "s = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()",
        'y = Upsample <mode="linear"> (x, s)',
    ),
    (
        10,
        "(float[1,2,4,6] x) => (float[1,2,2,4] y)",
        "s = Constant <value = float[4] {1.0, 1.0, 0.5, 0.7}> ()",
        "y = Resize (x, s)",
    ),
    *(
        (
            10,
            "(float[1,2,4,6] x) => (float[1,2,2,9] y)",
            "s = Constant <value = float[4] {1.0, 1.0, 0.6, 1.5}> ()",
            f'y = Resize <mode="{mode}"> (x, s)',
        )
        for mode in ("nearest", "linear")
    ),
    (
        10,
        "(float[1,2,4,6] x) => (float[1,2,8,9] y)",
        "s = Constant <value = float[4] {1.0, 1.0, 2.0, 1.5}> ()",
        'y = Resize <mode="linear"> (x, s)',
    ),
    (
        11,
        "(float[1,2,4,6] x) => (float[1,2,8,9] y)",
        "e = Constant <value = float[0] {}> ()",
        "s = Constant <value = int64[4] {1, 2, 8, 9}> ()",
        'y = Resize <coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor">'
        "(x, e, e, s)",
    ),
    (
        7,
        "(float[1,2,3,4] x) => (float[1,2,3,4] y)",
        "m = Constant <value = float[2] {0.5, 2.0}> ()",
        "y = BatchNormalization <epsilon=0.1, momentum=0.5> (x, m, m, m, m)",
    ),
    (7, "(float[2,12] x) => (float[2,12] y)", "d = Dropout <ratio=0.3> (x)", "y = Relu (d)"),
    (13, "(float[2,12] x) => (float[2,12] y)", "i = Identity (x)", "y = Identity (i)"),
    (13, "(float[2,12] x) => (float[2,12] y, float[2,12] x)", "y = Relu (x)"),
    (13, "(float[2,12] x) => (float[3] y)", "y = Constant <value_floats=[1.0,2.0,3.0]> ()"),
    (13, "(float[2,12] x) => (int64 y)", "y = Constant <value_int=7> ()"),
    (
        9,
        "(float[2,12] x) => (float[2,12] y)",
        "s = Shape (x)",
        "f = ConstantOfShape <value = float[1] {0.5}> (s)",
        "y = Mul (x, f)",
    ),
    (9, "(float[2,12] x) => (int32[2,12] y)", "y = Cast <to=6> (x)"),
    (
        7,
        "(float[2,12] x) => (float[2,2] y)",
        "z = Constant <value = float[2] {0.5, 2.0}> ()",
        "y = Gemm <transB=1> (x, x, z)",
    ),
    (
        14,
        "(float[2,12] x) => (float[4,6] y)",
        "s = Constant <value_ints=[4,-1]> ()",
        "y = Reshape <allowzero=0> (x, s)",
    ),
]
"""Opset, signature and nodes; every input is x."""


@pytest.mark.parametrize("parts", OLD_MODELS, ids=lambda parts: f"{parts[0]}: {parts[-1]}")
def test_old_opsets_mean_what_they_meant(parts: tuple[Any, ...]) -> None:
    source = model(*parts)
    x = next(iter(convert(source).inputs.values()))
    assert_agrees(source, {"x": np.random.default_rng(0).normal(size=x.dims).astype(np.float32)})


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 11
C = np.array([1, 20, 300], np.float32)
ANCIENT_MODELS: list[tuple[int, str, Array]] = [
    (6, "y = Add <broadcast=1, axis=1> (x, w)", X + C[:, None]),
    (6, "y = Mul <broadcast=1, axis=-2> (x, x)", X * X),
    (6, "t = Transpose <perm=[0,2,1]> (x)\ny = Sub <broadcast=1> (t, w)", X.swapaxes(1, 2) - C),
    (6, "y = PRelu (x, w)", np.where(X < 0, C[:, None] * X, X)),
    (5, "y = Relu <consumed_inputs=[0]> (x)", np.maximum(X, 0)),
    (4, "y = Reshape <shape=[0,-1]> (x)", X.reshape(2, 12)),
    (3, "y = Concat (x, x)", np.concatenate([X, X], 1)),
    (1, 'y = Cast <to="INT32"> (x)', X.astype(np.int32)),
    (1, "y = Pad <paddings=[0,0,1,0,0,0]> (x)", np.pad(X, ((0, 0), (0, 0), (1, 0)))),
    (6, "y = Dropout <is_test=1> (x)", X),
    (
        6,
        "t = Transpose <perm=[0,2,1]> (x)\n"
        "f = Flatten <axis=2> (t)\n"
        "y = Gemm <transA=1, broadcast=1> (f, f, w)",
        np.einsum("iaj,ibj->ab", X, X) + C,
    ),
]
"""Opset, nodes over float[2,3,4] x and float[3] w, and what comes out."""


@pytest.mark.parametrize(("opset", "line", "wanted"), ANCIENT_MODELS)
def test_opsets_before_the_peer_remembers(opset: int, line: str, wanted: Array) -> None:
    source = model(opset, "(float[2,3,4] x) => (y)", line)
    graph = convert(with_weight(source, C))
    got = run(graph, {"x": X})["y"]
    assert Type.of(got) == Type.of(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def picture(height: int, width: int) -> Array:
    """A photograph as float32[1, 3, height, width], 0..255."""
    data = pytest.importorskip("skimage.data")
    transform = pytest.importorskip("skimage.transform")
    small = transform.resize(data.astronaut(), (height, width), preserve_range=True)
    return np.ascontiguousarray(small.transpose(2, 0, 1)[None], np.float32)


@pytest.mark.parametrize(
    ("file", "shape", "mean", "scale"),
    [
        ("yunet_n_320_320.onnx", (1, 3, 320, 320), 0, 1),
        ("yunet_n_dynamic.onnx", (1, 3, 256, 320), 0, 1),
        ("yunet_n_dynamic.onnx", (2, 3, 96, 64), 0, 1),
        ("ultraface_rfb320/version-RFB-320.onnx", (1, 3, 240, 320), 127, 1 / 128),
    ],
)
def test_published_network_agrees(
    file: str, shape: tuple[int, ...], mean: float, scale: float
) -> None:
    """The graph as converted, without any pass."""
    path = TEACHERS / file
    if not path.exists():
        pytest.skip(f"the published networks of ../shared/teachers are not here: {file}")
    photo = np.repeat(picture(*shape[2:]), shape[0], 0)
    noise = np.random.default_rng(0).uniform(0, 255, shape).astype(np.float32)
    for image in (photo, noise):
        assert_agrees(path, {"input": ((image - mean) * scale).astype(np.float32)})


def test_symbolic_dims_keep_their_names_and_others_get_one() -> None:
    source = onnx.load_model_from_string(
        model(13, "(float[N,3,?,4] x) => (float[N,3,?,4] y)", "y = Relu (x)")
    )
    graph = convert(source.SerializeToString())
    assert graph.inputs == {"x": Type("float32", ("N", 3, "x.2", 4))}
    assert graph.outputs["y"].shape[0] == "N"
    assert not graph.is_static


def test_initialisers_are_constants_even_if_inputs_too() -> None:
    source = model(9, "(float[2,3] x, float[3] w) => (float[2,3] y)", "y = Mul (x, w)")
    graph = convert(with_weight(source, np.ones(3, np.float32)))
    assert list(graph.inputs) == ["x"]
    assert list(graph.constants) == ["w"]
    assert not graph.constants["w"].flags.writeable


def test_float16_weights_stay_float16() -> None:
    source = model(13, "(float16[2,3] x) => (float16[2,3] y)", "y = Mul (x, w)")
    source = with_weight(source, np.array([1, 2, 3.5], np.float16))
    assert convert(source).constants["w"].dtype == np.float16
    assert_agrees(source, {"x": np.arange(6, dtype=np.float16).reshape(2, 3)})


def test_local_functions_are_inlined() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[3] x) => (float[3] y) { y = own.twice (x) }
        <domain: "own", opset_import: ["" : 17]>
        twice (a) => (b) { b = Add (a, a) }
    """
    graph = convert(onnx.parser.parse_model(text).SerializeToString())
    assert [node.op for node in graph.nodes] == ["add"]


def test_weights_in_another_file(tmp_path: Path) -> None:
    source = model(13, "(float[3] x) => (float[3] y)", "y = Mul (x, w)")
    source = with_weight(source, np.array([1, 2, 3], np.float32))
    path = tmp_path / "model.onnx"
    onnx.save_model(
        onnx.load_model_from_string(source),
        str(path),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
        convert_attribute=False,
    )
    assert (tmp_path / "weights.bin").exists()
    np.testing.assert_array_equal(convert(path).constants["w"], [1, 2, 3])
    with pytest.raises(ModelError, match=r"another file.*: w"):
        convert(path.read_bytes())
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"tensor w: there is no file .*weights\.bin"):
        convert(path)


def test_opset_of_the_future_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", "palmkit.engine"):
        convert(model(28, "(float[3] x) => (float[3] y)", "y = Relu (x)"))
        assert not caplog.messages
        convert(model(99, "(float[3] x) => (float[3] y)", "y = Relu (x)"))
    assert caplog.messages == ["opset 99 is newer than the rules, which are of 28"]


def test_metadata_says_where_the_model_comes_from() -> None:
    proto = onnx.load_model_from_string(model(13, "(float[3] x) => (float[3] y)", "y = Relu (x)"))
    proto.producer_name, proto.producer_version = "pytorch", "2.9"
    onnx.helper.set_model_props(proto, {"licence": "MIT"})
    assert convert(proto.SerializeToString()).metadata == {
        "name": "g",
        "producer": "pytorch 2.9",
        "opset": "13",
        "licence": "MIT",
    }


def test_every_unknown_operator_is_listed_at_once() -> None:
    text = """
        <ir_version: 7, opset_import: ["" : 13, "com.acme" : 1]>
        g (float[3] x) => (float[3] y) {
            [first] a = Conjure (x)
            b = com.acme.Magic (a)
            [last] y = Conjure (b)
        }
    """
    with pytest.raises(UnsupportedError) as caught:
        convert(onnx.parser.parse_model(text).SerializeToString())
    assert str(caught.value) == (
        "onnx model in memory: 2 ONNX operators have no rule: "
        "Conjure (2: first, last); com.acme.Magic (1: b)"
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((0, "(float[3] x) => (float[3] y)", "y = Relu (x)"), "opset: expected 1 or newer, got 0"),
        (
            (6, "(float[3] x) => (float[3] y)", "y = Dropout <is_test=0> (x)"),
            "training, is_test=0, is not supported",
        ),
        ((13, "(string[3] x) => (string[3] y)", "y = Identity (x)"), "element type string"),
        ((13, "(seq(float[3]) x) => (seq(float[3]) y)", "y = Identity (x)"), "expected a tensor"),
        (
            (
                7,
                "(float[1,2,3] x, float[2] s) => (float[1,2,3] y)",
                "y = BatchNormalization <spatial=0> (x, s, s, s, s)",
            ),
            "spatial=0 is not supported",
        ),
        (
            (13, "(float[3] x) => (string y)", 'y = Constant <value_string="no"> ()'),
            "attribute value_string is not supported",
        ),
    ],
)
def test_what_has_no_rule_is_said(parts: tuple[Any, ...], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        convert(model(*parts))


def test_package_onnx_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UnsupportedError, match=r'pip install "palmkit\[onnx\]"'):
        convert(b"")


@pytest.mark.parametrize("content", [b"", b"hello, this is no model", bytes(100)])
def test_no_model(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "no.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"no\.onnx"):
        convert(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot read model .*gone\.onnx"):
        convert(tmp_path / "gone.onnx")


def test_value_nobody_writes() -> None:
    with pytest.raises(ModelError, match="reads a value nobody writes: nowhere"):
        convert(model(13, "(float[3] x) => (float[3] y)", "y = Add (x, nowhere)"))


def test_damaged_files_give_typed_errors() -> None:
    lines = ("a = Clip <min=0.0> (x)", "[n] y = Mul (a, w)")
    whole = model(9, "(float[2,3] x) => (float[2,3] y)", *lines)
    whole = with_weight(whole, np.ones((2, 3), np.float32))
    rng = np.random.default_rng(0)
    damaged = [whole[:length] for length in range(len(whole))]
    for _ in range(2000):
        flipped = bytearray(whole)
        for place in rng.integers(0, len(whole), 2):
            flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    refused = 0
    for each in damaged:
        try:
            convert(each)
        except PalmError:
            refused += 1
    assert refused > len(whole) // 2
