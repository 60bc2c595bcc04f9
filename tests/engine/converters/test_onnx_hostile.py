"""ONNX files made to do harm: a typed error, soon, and no more memory than the file has bytes."""

import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palmkit.engine
from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import ModelError, PalmError
from palmkit.engine.ops import infer_types
from palmkit.engine.passes import optimise
from tests.engine.converters.onnx_suite import suite

onnx: Any = pytest.importorskip("onnx")

TEACHERS = Path(__file__).parents[3].parent / "shared" / "teachers"
MOST_MEMORY_BYTES = 1 << 26
MUTANTS = 600


def parsed(*lines: str, header: str = "(float[3] x) => (float[3] y)") -> Any:
    text = f'<ir_version: 8, opset_import: ["" : 17, "own" : 1]> g {header} {{ {" ".join(lines)} }}'
    return onnx.parser.parse_model(text)


def with_tensor(**fields: Any) -> Any:
    model = parsed("y = Add (x, w)")
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT)
    for name, value in fields.items():
        if isinstance(value, bytes | int):
            setattr(tensor, name, value)
        else:
            getattr(tensor, name).extend(value)
    model.graph.initializer.append(tensor)
    return model


TENSORS = [
    with_tensor(dims=[2**40], raw_data=bytes(12)),
    with_tensor(dims=[2**31, 2**31, 2**31], raw_data=bytes(12)),
    with_tensor(dims=[-1], raw_data=bytes(12)),
    with_tensor(dims=[-3], raw_data=bytes(12)),
    with_tensor(dims=[3, -1, -1], raw_data=bytes(12)),
    with_tensor(dims=[3], raw_data=bytes(11)),
    with_tensor(dims=[3], raw_data=bytes(16)),
    with_tensor(dims=[3], float_data=[1.0, 2.0]),
    with_tensor(dims=[2**40], float_data=[1.0]),
    with_tensor(dims=[3]),
    with_tensor(dims=[3], raw_data=bytes(12), data_type=0),
    with_tensor(dims=[3], raw_data=bytes(12), data_type=99),
    with_tensor(dims=[2**40], raw_data=bytes(12), data_type=onnx.TensorProto.INT4),
    with_tensor(dims=[2**40], int32_data=[1], data_type=onnx.TensorProto.INT4),
    with_tensor(dims=[2**40], int32_data=[1], data_type=onnx.TensorProto.BFLOAT16),
]


@pytest.mark.parametrize("model", TENSORS, ids=lambda model: str(model.graph.initializer[0])[:60])
def test_tensor_that_is_not_what_it_says(model: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(PalmError):
            convert(model.SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY_BYTES
    finally:
        tracemalloc.stop()


FUNCTION = '<domain: "own", opset_import: ["" : 17, "own" : 1]>'


def with_functions(*functions: str) -> Any:
    text = f"""
        <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
        g (float[3] x) => (float[3] y) {{ y = own.f0 (x) }}
        {" ".join(f"{FUNCTION} {each}" for each in functions)}
    """
    return onnx.parser.parse_model(text)


def test_functions_that_call_each_other_in_a_circle() -> None:
    model = with_functions("f0 (a) => (b) { b = own.f1 (a) }", "f1 (a) => (b) { b = own.f0 (a) }")
    with pytest.raises(ModelError, match="in a circle: f"):
        convert(model.SerializeToString())
    with pytest.raises(ModelError, match="in a circle: f0"):
        convert(with_functions("f0 (a) => (b) { b = own.f0 (a) }").SerializeToString())


def test_functions_that_double_each_other() -> None:
    doubling = [
        f"f{i} (a) => (c) {{ b = own.f{i + 1} (a) c = own.f{i + 1} (b) }}" for i in range(40)
    ]
    model = with_functions(*doubling, "f40 (a) => (b) { b = Relu (a) }")
    with pytest.raises(ModelError, match="functions make over 1048576 nodes"):
        convert(model.SerializeToString())


def test_functions_that_call_deep() -> None:
    chain = [f"f{i} (a) => (b) {{ b = own.f{i + 1} (a) }}" for i in range(500)]
    model = with_functions(*chain, "f500 (a) => (b) { b = Relu (a) }")
    with pytest.raises(ModelError, match="functions call each other over 64 deep"):
        convert(model.SerializeToString())


def field(number: int, payload: bytes | str) -> bytes:
    """A field of protobuf's wire format that has a length."""
    data = payload.encode() if isinstance(payload, str) else payload
    head, length = (number << 3 | 2).to_bytes(1, "little"), len(data)
    size = b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return head + size + bytes([length]) + data


def nested(depth: int) -> bytes:
    """A model of `depth` Ifs, each in a branch of the one before; no library writes such."""
    model = parsed("y = Relu (x)", header="(float[3] x, bool c) => (float[3] y)")
    flat = parsed("n = Neg (x)", header="() => (float[3] n)").graph.SerializeToString()
    output = model.graph.output[0].SerializeToString()
    inputs = b"".join(field(11, each.SerializeToString()) for each in model.graph.input)
    graph = field(1, field(1, "x") + field(2, "y") + field(4, "Relu")) + field(12, output)
    for _ in range(depth):
        branches = b"".join(
            field(5, field(1, name) + field(6, body) + b"\xa0\x01\x05")
            for name, body in (("then_branch", graph), ("else_branch", flat))
        )
        node = field(1, "c") + field(2, "y") + field(4, "If") + branches
        graph = field(1, node) + field(12, output)
    model.ClearField("graph")
    return bytes(model.SerializeToString()) + field(7, graph + inputs)


def test_deep_bodies() -> None:
    assert len(convert(nested(20)).nodes) == 1
    for depth in (33, 40, 5000):
        with pytest.raises(ModelError):
            convert(nested(depth))


CIRCLES = [
    parsed("y = Add (x, y)"),
    parsed("a = Add (x, b)", "b = Relu (a)", "y = Relu (a)"),
    parsed("a = Relu (x)", "a = Neg (x)", "y = Relu (a)"),
    parsed("x = Relu (x)", "y = Relu (x)"),
    parsed("y = Relu (x)", header="(float[3] x, float[3] x) => (float[3] y)"),
    parsed("y = Relu (x)", header="(float[3] x) => (int64[3] y)"),
    parsed("y = Shape (x)", header="(float[3] x) => (float[1] y)"),
    parsed("z = Relu (x)"),
    parsed("y = Relu ()"),
    parsed("y = Identity ()"),
    parsed("y = Cast (x)"),
    parsed("y = Cast <to=99> (x)"),
    parsed("y = Relu <axis=3> (x)"),
    parsed("y = Concat <axis=9223372036854775807> (x, x)"),
    parsed("y = If (x)"),
    parsed("y = Scan <num_scan_inputs=-5> (x)"),
    parsed("y = Reshape (x, x)"),
    parsed("y = MatMul (x, x)", header="(float[3,4] x) => (float[3] y)"),
    parsed("y = Add (x, i)", header="(float[3] x, int64[3] i) => (float[3] y)"),
    parsed(
        "y = Conv <kernel_shape=[2147483647,2147483647]> (x, x)", header="(float[1,1,2,2] x) => (y)"
    ),
    parsed("y = Transpose <perm=[0,0]> (x)", header="(float[3,3] x) => (float[3,3] y)"),
    parsed("y = Gather <axis=-7> (x, i)", header="(float[3] x, int64[3] i) => (float[3] y)"),
    parsed('y = Einsum <equation="i,i->((("> (x, x)'),
    parsed("y = Split <axis=0, split=[-1,4]> (x)"),
    parsed("y = Softmax <axis=[1,2]> (x)"),
]


@pytest.mark.parametrize("model", CIRCLES, ids=lambda model: str(onnx.printer.to_text(model.graph)))
def test_graph_that_makes_no_sense(model: Any, tmp_path: Path) -> None:
    path = tmp_path / "senseless.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(PalmError, match="senseless"):
        palmkit.engine.load(path, backend="reference")


def external(tmp_path: Path, entries: dict[str, str] | None = None, size: int = 12) -> Path:
    """A model whose weight lies in weights.bin, which has `size` bytes."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(np.arange(size // 4, dtype=np.float32).tobytes())
    (tmp_path / "secret.bin").write_bytes(bytes(12))
    model = parsed("y = Add (x, w)")
    tensor = model.graph.initializer.add(
        name="w", data_type=1, dims=[3], data_location=onnx.TensorProto.EXTERNAL
    )
    for key, value in {"location": "weights.bin", **(entries or {})}.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_external_weights(tmp_path: Path) -> None:
    path = external(tmp_path, {"offset": "12", "length": "12"}, size=24)
    np.testing.assert_array_equal(convert(path).constants["w"], [3, 4, 5])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret.bin"}, "not in the model's folder"),
        ({"location": "/etc/passwd"}, "not in the model's folder"),
        ({"location": ""}, "not in the model's folder"),
        ({"location": "link.bin"}, "not in the model's folder"),
        ({"location": "gone.bin"}, "there is no file"),
        ({"location": "."}, "there is no file"),
        ({"offset": "4"}, "cannot reshape|damaged"),
        ({"offset": "4", "length": "12"}, "has no 12 bytes at 4, of 12"),
        ({"offset": "-12", "length": "12"}, "offset of its bytes is not a number: '-12'"),
        ({"length": "1e9"}, "length of its bytes is not a number: '1e9'"),
        ({"length": "99999999999999999999"}, "has no 99999999999999999999 bytes"),
        ({"offset": "13"}, "has no -1 bytes at 13"),
    ],
)
def test_external_weights_elsewhere(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    path = external(tmp_path, entries)
    (path.parent / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ModelError, match=message):
        convert(path)


def test_tensors_that_share_external_bytes(tmp_path: Path) -> None:
    path = external(tmp_path, size=1 << 20)
    model = onnx.load(str(path), load_external_data=False)
    model.graph.node[0].CopyFrom(parsed("y = Relu (x)").graph.node[0])
    first = model.graph.initializer[0]
    first.dims[0] = 1 << 18
    for i in range(2):
        model.graph.initializer.add().CopyFrom(first)
        model.graph.initializer[-1].name = f"w{i}"
    path.write_bytes(model.SerializeToString())
    assert len(convert(path).constants) == 3
    for i in range(100):
        model.graph.initializer.add().CopyFrom(first)
        model.graph.initializer[-1].name = f"more{i}"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=r"too many tensors share the bytes of weights\.bin"):
        convert(path)


def descend(message: Any) -> list[tuple[Any, Any]]:
    """Every field that is set in the message and those in it, with its owner."""
    found: list[tuple[Any, Any]] = []
    for field, value in message.ListFields():
        found.append((message, field))
        if field.message_type is not None:
            for each in [value] if hasattr(value, "ListFields") else value:
                found += descend(each)
    return found


NUMBERS = (0, 1, -1, 2, 3, 7, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1)
TEXTS = ("", "x", "y", "axis", "Loop", "Cast", "Relu")


def mutate(message: Any, rng: random.Random) -> None:
    """Change, drop or double one field."""
    owner, field = rng.choice(descend(message))
    value = getattr(owner, field.name)
    if hasattr(value, "add") or hasattr(value, "append"):
        place = rng.randrange(len(value))
        if rng.random() < 0.4:
            del value[place]
        elif field.message_type is not None:
            value.add().CopyFrom(value[place])
        elif isinstance(value[place], int):
            value[place] = rng.choice(NUMBERS)
        else:
            value.append(rng.choice(list(value)))
    elif field.message_type is not None or rng.random() < 0.3:
        owner.ClearField(field.name)
    elif isinstance(value, str):
        setattr(owner, field.name, rng.choice(TEXTS))
    elif isinstance(value, bytes):
        setattr(owner, field.name, rng.choice([b"", b"\xff", value[: len(value) // 2], value * 2]))
    elif isinstance(value, int):
        # An int32 or an enum takes fewer numbers.
        for number in (rng.choice(NUMBERS), rng.randrange(28)):
            try:
                setattr(owner, field.name, number)
                return
            except ValueError:
                continue


def seeds() -> list[Any]:
    """Real models: one published, and the node tests' with the richest files."""
    cases = suite("node")
    names = [
        name
        for name in sorted(cases)
        if any(
            part in name for part in ("loop", "if", "scan9", "quantize", "lstm", "resize", "conv")
        )
    ]
    models = [cases[name].model for name in names]
    published = TEACHERS / "yunet_n_320_320.onnx"
    return [*models, *([onnx.load(str(published))] * 10 if published.exists() else [])]


@pytest.mark.parametrize("seed", range(3))
def test_mutants_give_typed_errors(seed: int) -> None:
    rng = random.Random(seed)
    originals = seeds()
    refused = 0
    for _ in range(MUTANTS // 3):
        mutant = onnx.ModelProto()
        mutant.CopyFrom(rng.choice(originals))
        for _ in range(rng.choice((1, 1, 2, 4))):
            mutate(mutant, rng)
        try:
            graph = convert(mutant.SerializeToString())
            infer_types(graph)
            optimise(graph)
        except PalmError:
            refused += 1
    assert 0 < refused < MUTANTS // 3


def test_mutants_of_a_file_take_little_memory() -> None:
    rng = random.Random(0)
    whole = suite("node")["node/lstm_with_peepholes"].model
    peak: Callable[[], int] = lambda: tracemalloc.get_traced_memory()[1]  # noqa: E731
    tracemalloc.start()
    try:
        for _ in range(100):
            mutant = onnx.ModelProto()
            mutant.CopyFrom(whole)
            mutate(mutant, rng)
            try:
                optimise(convert(mutant.SerializeToString()))
            except PalmError:
                continue
        assert peak() < MOST_MEMORY_BYTES
    finally:
        tracemalloc.stop()


def undeclared(node: Any, opset: int = 18) -> Any:
    """A model of one node of x whose output says nothing of its shape."""
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [3, 4])
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output] or [
        onnx.ValueInfoProto(name="y")
    ]
    graph = onnx.helper.make_graph([node], "g", [x], outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])


def test_outputs_that_are_not_declared_have_the_types_that_follow() -> None:
    model = undeclared(onnx.helper.make_node("Transpose", ["x"], ["y"]))
    assert str(convert(model.SerializeToString()).outputs["y"]) == "float32[4, 3]"


def test_shapes_that_follow_from_damage_take_no_memory() -> None:
    """Split into 2 ** 53, of which ONNX's own inference would make as many types."""
    node = onnx.helper.make_node("Split", ["x"], ["a", "b"], num_outputs=1 << 53)
    tracemalloc.start()
    try:
        with pytest.raises(PalmError):
            convert(undeclared(node).SerializeToString())
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY_BYTES
    finally:
        tracemalloc.stop()


def test_outputs_that_are_inputs_end_no_process() -> None:
    """ONNX's own inference crashes where an input that nothing declares has the output's name."""
    model = undeclared(onnx.helper.make_node("EyeLike", ["x"], ["y"], k=1, dtype=1), 22)
    model.graph.input[0].name = "y"
    with pytest.raises(ModelError):
        convert(model.SerializeToString())


def test_a_node_that_writes_nothing_is_refused() -> None:
    with pytest.raises(ModelError, match="writes nothing|is written by nobody"):
        convert(undeclared(onnx.helper.make_node("Relu", ["x"], [])).SerializeToString())
    with pytest.raises(ModelError, match="Relu|relu"):
        convert(undeclared(onnx.helper.make_node("Relu", ["x", "x"], [])).SerializeToString())
