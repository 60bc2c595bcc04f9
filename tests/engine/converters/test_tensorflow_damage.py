"""Broken, hostile and unknown TensorFlow models end in a typed error that says where."""

import random
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters import tensorflow
from palmkit.engine.converters.tensorflow.bundle import Bundle, unpack_snappy
from palmkit.engine.converters.tensorflow.schema import messages
from palmkit.engine.errors import ModelError, PalmError, UnsupportedError
from palmkit.engine.model import Model
from tests.engine.converters.tensorflow_graphs import (
    GraphWriter,
    archive,
    function,
    set_attr,
    set_tensor,
)

pytest.importorskip("google.protobuf")

MODELS = archive("models.npz.xz")
OPERATORS = archive("operators.npz.xz")


def network() -> GraphWriter:
    """A convolution with a bias."""
    graph = GraphWriter()
    graph.placeholder("image", None, 8, 8, 3)
    graph.const("w", np.ones((3, 3, 3, 4)))
    graph.const("b", np.ones(4))
    graph.node("Conv2D", "conv", "image", "w", strides=(1, 1, 1, 1), padding="SAME")
    graph.node("BiasAdd", "y", "conv", "b")
    return graph


def test_the_network_is_whole() -> None:
    graph = tensorflow.convert(network().bytes())
    assert [*graph.inputs, *graph.outputs] == ["image", "y"]
    assert str(graph.outputs["y"]) == "float32[y.0, 8, 8, 4]"


def cyclic(graph: GraphWriter) -> None:
    graph.graph.node[3].input[0] = "y"
    graph.node("Identity", "out", "y")


def reads_what_is_not_there(graph: GraphWriter) -> None:
    graph.graph.node[3].input[0] = "nobody"


def reads_an_output_that_is_not_there(graph: GraphWriter) -> None:
    graph.graph.node[4].input[0] = "conv:7"


def has_a_name_twice(graph: GraphWriter) -> None:
    graph.const("w", 1.0)


def has_no_name(graph: GraphWriter) -> None:
    graph.const("", 1.0)


def has_a_broken_reference(graph: GraphWriter) -> None:
    graph.graph.node[4].input[0] = "conv:x"


def has_an_unknown_dtype(graph: GraphWriter) -> None:
    graph.graph.node[1].attr["value"].tensor.dtype = 77


def is_short_of_bytes(graph: GraphWriter) -> None:
    graph.graph.node[1].attr["value"].tensor.tensor_content = b"1234"


def has_too_many_elements(graph: GraphWriter) -> None:
    tensor = graph.graph.node[2].attr["value"].tensor
    tensor.tensor_content = b""
    tensor.float_val.extend([1.0] * 9)


def has_a_negative_dim(graph: GraphWriter) -> None:
    graph.graph.node[2].attr["value"].tensor.tensor_shape.dim[0].size = -3


def has_an_impossible_shape(graph: GraphWriter) -> None:
    tensor = graph.graph.node[2].attr["value"].tensor
    tensor.tensor_content = b""
    for _ in range(5):
        tensor.tensor_shape.dim.add(size=1 << 40)


def has_another_number_of_channels(graph: GraphWriter) -> None:
    graph.graph.node[0].attr["shape"].shape.dim[0].size = 1
    set_tensor(graph.graph.node[1].attr["value"].tensor, np.ones((3, 3, 5, 4), np.float32))


def has_no_inputs_at_a_node(graph: GraphWriter) -> None:
    del graph.graph.node[4].input[:]


def has_no_value(graph: GraphWriter) -> None:
    del graph.graph.node[1].attr["value"]


def has_strides_of_two_numbers(graph: GraphWriter) -> None:
    del graph.graph.node[3].attr["strides"].list.i[2:]


def splits_into_too_many(graph: GraphWriter) -> None:
    graph.const("axis", 0, "int32")
    graph.node("Split", "parts", "axis", "y", num_split=1 << 40)


def has_a_loop_without_a_condition(graph: GraphWriter) -> None:
    graph.node("Enter", "enter", "y", frame_name="loop")
    graph.node("Merge", "merge", "enter", "next")
    graph.node("NextIteration", "next", "merge")
    graph.node("Exit", "exit", "next")


def merges_what_nobody_splits(graph: GraphWriter) -> None:
    graph.node("Merge", "merge", "y", "conv")


def calls_what_is_not_there(graph: GraphWriter) -> None:
    graph.node("PartitionedCall", "call", "y", f=function("nothing"))


def has_nothing(graph: GraphWriter) -> None:
    del graph.graph.node[:]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cyclic, "cycle"),
        (reads_what_is_not_there, "node conv: reads a node that is not there: nobody"),
        (reads_an_output_that_is_not_there, "output 7 of node conv"),
        (has_a_name_twice, "two nodes are called 'w'"),
        (has_no_name, "nameless"),
        (has_a_broken_reference, "node y: cannot read the input 'conv:x'"),
        (has_an_unknown_dtype, "number 77"),
        (is_short_of_bytes, "Const w: 4 bytes do not fill"),
        (has_too_many_elements, "Const b: 9 elements are too many"),
        (has_a_negative_dim, "Const b: not the shape"),
        (has_an_impossible_shape, "Const b: the shape is too large"),
        (has_another_number_of_channels, "conv: conv: group"),
        (has_no_inputs_at_a_node, "node y: BiasAdd has only 0 inputs"),
        (has_no_value, "node w: Const is damaged: KeyError: 'value'"),
        (has_strides_of_two_numbers, "node conv: Conv2D: expected 4 strides"),
        (splits_into_too_many, "node parts: Split has"),
        (has_a_loop_without_a_condition, "loop loop: expected one LoopCond"),
        (merges_what_nobody_splits, "node merge: a Merge of values that no Switch splits"),
        (calls_what_is_not_there, "node call: calls a function that is not there: nothing"),
        (has_nothing, "without outputs"),
    ],
)
def test_damaged_graph(damage: Callable[[GraphWriter], None], says: str) -> None:
    graph = network()
    damage(graph)
    with pytest.raises((ModelError, UnsupportedError)) as caught:
        tensorflow.convert(graph.bytes())
    assert says in str(caught.value)
    assert "TensorFlow model in memory" in str(caught.value)


def test_unknown_operators_are_listed_at_once() -> None:
    graph = network()
    graph.node("Frobnicate", "first", "y")
    graph.node("Frobnicate", "second", "first")
    graph.node("Lookup", "third", "second")
    branch = graph.graph.library.function.add()
    branch.signature.name = "branch"
    branch.signature.input_arg.add(name="x")
    branch.signature.output_arg.add(name="y")
    GraphWriter(branch).node("Hidden", "inside", "x")
    branch.ret["y"] = "inside:output:0"
    graph.const("yes", True, "bool")
    branches = {"then_branch": function("branch"), "else_branch": function("branch")}
    graph.node("If", "fourth", "yes", "third", **branches)
    with pytest.raises(UnsupportedError) as caught:
        tensorflow.convert(graph.bytes())
    for part in ("3 TensorFlow operators", "Frobnicate (2: first, second)", "Hidden (1: inside)"):
        assert part in str(caught.value)
    assert "Lookup (1: third)" in str(caught.value)
    assert "write the model without them" in str(caught.value)


def recursive(graph: GraphWriter, caller: str, called: str, copies: int = 1) -> None:
    """A function that calls another one after the other."""
    found = graph.graph.library.function.add()
    found.signature.name = caller
    found.signature.input_arg.add(name="x")
    found.signature.output_arg.add(name="y")
    last = "x"
    for number in range(copies):
        name = f"call{number}"
        GraphWriter(found).node("PartitionedCall", name, last, f=function(called))
        last = f"{name}:output:0"
    found.ret["y"] = last


def test_functions_that_call_each_other() -> None:
    graph = network()
    recursive(graph, "one", "two")
    recursive(graph, "two", "one")
    graph.node("PartitionedCall", "call", "y", f=function("one"))
    with pytest.raises(ModelError, match="functions call each other: one -> two -> one"):
        tensorflow.convert(graph.bytes())


def test_functions_that_double() -> None:
    graph = network()
    for number in range(40):
        recursive(graph, f"f{number}", f"f{number + 1}", 2)
    last = graph.graph.library.function.add()
    last.signature.name = "f40"
    last.signature.input_arg.add(name="x")
    last.signature.output_arg.add(name="y")
    GraphWriter(last).node("Relu", "relu", "x")
    last.ret["y"] = "relu:activations:0"
    graph.node("PartitionedCall", "call", "y", f=function("f0"))
    with pytest.raises(ModelError, match="too many nodes to inline"):
        tensorflow.convert(graph.bytes())


@pytest.mark.parametrize("condition", ["yes", "flag"])
def test_branches_that_hold_themselves(condition: str) -> None:
    graph = network()
    branch = graph.graph.library.function.add()
    branch.signature.name = "branch"
    for name in ("flag", "x"):
        branch.signature.input_arg.add(name=name)
    branch.signature.output_arg.add(name="y")
    branches = {"then_branch": function("branch"), "else_branch": function("branch")}
    GraphWriter(branch).node("If", "again", "flag", "flag", "x", **branches)
    branch.ret["y"] = "again:output:0"
    graph.const("yes", True, "bool")
    graph.placeholder("flag", dtype="bool")
    graph.node("If", "if", condition, condition, "y", **branches)
    with pytest.raises(ModelError):
        tensorflow.convert(graph.bytes())


def splat(value: float, *dims: int, first: tuple[float, ...] = ()) -> Any:
    """A constant of which the file stores a few elements only."""
    attr = messages()["AttrValue"]()
    attr.tensor.dtype = 1
    for dim in dims:
        attr.tensor.tensor_shape.dim.add(size=dim)
    attr.tensor.float_val.extend([*first, value])
    return attr


def test_a_constant_larger_than_its_file_takes_no_memory() -> None:
    graph = GraphWriter()
    graph.node("Const", "zeros", value=splat(2.0, 1 << 20, 1 << 20))
    graph.node("Const", "ramp", value=splat(2.0, 1 << 30, first=(0.0, 1.0)))
    graph.node("Neg", "y", "zeros")
    graph.node("Neg", "z", "ramp")
    tracemalloc.start()
    converted = tensorflow.convert(graph.bytes())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 24
    assert str(converted.outputs["y"]) == "float32[1048576, 1048576]"
    assert str(converted.outputs["z"]) == "float32[1073741824]"


def test_a_repeated_element_is_read_as_such() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 2, 3000)
    graph.node("Const", "c", value=splat(2.0, 2, 3000, first=(0.0, 1.0)))
    graph.node("AddV2", "y", "x", "c")
    got = Model(tensorflow.convert(graph.bytes())).run({"x": np.zeros((2, 3000), np.float32)})["y"]
    assert got.reshape(-1)[:3].tolist() == [0, 1, 2]
    assert (got.reshape(-1)[2:] == 2).all()


def test_one_weight_of_many_nodes_is_turned_once() -> None:
    graph = GraphWriter()
    graph.placeholder("x", 1, 4, 4, 64)
    graph.const("w", np.ones((3, 3, 64, 64)))
    last = "x"
    for number in range(200):
        last = graph.node("Conv2D", f"y{number}", last, "w", strides=(1, 1, 1, 1), padding="SAME")
    tracemalloc.start()
    tensorflow.convert(graph.bytes())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * len(graph.bytes()) + (1 << 23)


def test_tangled_control_flow_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide graph of merges of which each hangs on all the others' inputs."""
    monkeypatch.setattr("palmkit.engine.converters.tensorflow.nodes._MOST_STEPS", 200_000)
    graph = GraphWriter()
    graph.placeholder("x", 4)
    graph.placeholder("flag", dtype="bool")
    last = graph.node("Switch", "switch", "x", "flag")
    for number in range(1000):
        last = graph.node("Identity", f"i{number}", last)
    for number in range(1000):
        graph.node("Merge", f"m{number}", last, "i0")
    started = time.monotonic()
    with pytest.raises(ModelError, match="too tangled"):
        tensorflow.convert(graph.bytes())
    assert time.monotonic() - started < 60


# SavedModels


def unpack(folder: Path, name: str = "switched") -> Path:
    for key, data in MODELS[name].items():
        if key.startswith("file:"):
            path = folder / key.removeprefix("file:")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data.tobytes())
    return folder


def edit(folder: Path, change: Callable[[Any], None]) -> None:
    path = folder / "saved_model.pb"
    message = messages()["SavedModel"].FromString(path.read_bytes())
    change(message)
    path.write_bytes(message.SerializeToString())


def test_signatures_are_chosen_by_name(tmp_path: Path) -> None:
    def add(message: Any) -> None:
        signatures = message.meta_graphs[0].signature_def
        signatures["other"].CopyFrom(signatures["serving_default"])
        del signatures["other"].outputs["y1"]

    edit(unpack(tmp_path), add)
    assert [*tensorflow.convert(tmp_path).outputs] == ["y0", "y1", "y2"]
    assert [*tensorflow.convert(tmp_path, signature="other").outputs] == ["y0", "y2"]
    metadata = tensorflow.convert(tmp_path, signature="other").metadata
    assert metadata["signature"] == "other"
    assert metadata["producer"].startswith("TensorFlow 2")
    with pytest.raises(ModelError, match="no signature 'third'; the model has: other, serving_def"):
        tensorflow.convert(tmp_path, signature="third")
    edit(tmp_path, lambda message: message.meta_graphs[0].signature_def.pop("serving_default"))
    assert [*tensorflow.convert(tmp_path).outputs] == ["y0", "y2"]


def test_a_graph_for_another_use(tmp_path: Path) -> None:
    def retag(message: Any) -> None:
        message.meta_graphs.add().meta_info_def.tags.append("train")
        message.meta_graphs[0].meta_info_def.tags[:] = ["gpu"]

    edit(unpack(tmp_path), retag)
    with pytest.raises(ModelError, match="expected a graph with the tag 'serve', got gpu; train"):
        tensorflow.convert(tmp_path)


def test_files_that_are_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="expected saved_model.pb"):
        tensorflow.convert(tmp_path)
    with pytest.raises(ModelError, match="cannot read"):
        tensorflow.convert(tmp_path / "nothing.pb")
    (tmp_path / "empty.pb").touch()
    with pytest.raises(ModelError, match="empty"):
        tensorflow.convert(tmp_path / "empty.pb")
    unpack(tmp_path)
    data = tmp_path / "variables" / "variables.data-00000-of-00001"
    data.rename(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="variables.data-00000-of-00001"):
        tensorflow.convert(tmp_path)
    (tmp_path / "variables" / "variables.index").unlink()
    with pytest.raises(ModelError, match="checkpoint is missing"):
        tensorflow.convert(tmp_path)


def test_a_shorter_checkpoint(tmp_path: Path) -> None:
    data = unpack(tmp_path) / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(ModelError, match="ends before its bytes do"):
        tensorflow.convert(tmp_path)


def test_a_changed_checkpoint(tmp_path: Path) -> None:
    pytest.importorskip("google_crc32c")
    data = unpack(tmp_path) / "variables" / "variables.data-00000-of-00001"
    changed = bytearray(data.read_bytes())
    changed[40] ^= 1
    data.write_bytes(changed)
    with pytest.raises(ModelError, match="checksum"):
        tensorflow.convert(tmp_path)


def ignore(*_: object) -> None:
    """Check no checksum."""


def test_every_byte_of_an_index_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any one byte changed: a typed error, or another reading, without checksums to help."""
    monkeypatch.setattr("palmkit.engine.converters.tensorflow.bundle._check_crc", ignore)
    index = unpack(tmp_path) / "variables" / "variables.index"
    data = index.read_bytes()
    refused = 0
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 0xFF
        index.write_bytes(changed)
        try:
            bundle = Bundle(tmp_path / "variables" / "variables")
            for name in ("w", "w2", "bias"):
                bundle.tensor(name)
        except PalmError:
            refused += 1
    for length in range(len(data)):
        index.write_bytes(data[:length])
        with pytest.raises(ModelError):
            Bundle(tmp_path / "variables" / "variables")
    assert refused > len(data) // 4


def test_snappy() -> None:
    """Literals, and copies that overlap what they write; pieces made by hand from the format."""
    packed = bytes([11, 3 << 2]) + b"abcd" + bytes([(3 << 2) | 1, 4])
    assert unpack_snappy(packed, "x") == b"abcdabcdabc"
    run = bytes([9, 0]) + b"z" + bytes([(7 << 2) | 2, 1, 0])
    assert unpack_snappy(run, "x") == b"z" * 9
    long = bytes([100, 60 << 2, 99]) + bytes(range(100))
    assert unpack_snappy(long, "x") == bytes(range(100))
    for broken in (packed[:-1], packed[:4], bytes([11]), b"", bytes([4, (3 << 2) | 1, 9])):
        with pytest.raises(ModelError):
            unpack_snappy(broken, "x")
    with pytest.raises(ModelError, match="unreasonably large"):
        unpack_snappy(b"\xff\xff\xff\xff\x0f" + packed, "x")


def test_a_compressed_index(tmp_path: Path) -> None:
    """The blocks of an index as snappy literals."""
    index = unpack(tmp_path) / "variables" / "variables.index"
    data = index.read_bytes()
    keys = {"w", "w2", "bias"}
    plain = {name: Bundle(index.with_suffix("")).tensor(name) for name in keys}

    def block(offset: int, size: int) -> bytes:
        raw = data[offset : offset + size]
        return number(len(raw)) + bytes([61 << 2]) + struct.pack("<H", len(raw) - 1) + raw

    def number(value: int) -> bytes:
        low, rest = value & 0x7F, value >> 7
        return bytes([low | 0x80]) + number(rest) if rest else bytes([low])

    def read(at: bytes) -> list[int]:
        found, value, shift = list[int](), 0, 0
        for byte in at:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                found.append(value)
                value = shift = 0
        return found

    *_, index_offset, index_size = read(data[-48:-8])[:4]
    entry = data[index_offset : index_offset + index_size]
    handle_size = entry[2]
    key_size = entry[1]
    offset, size = read(entry[3 + key_size : 3 + key_size + handle_size])[:2]
    first = block(offset, size)
    handle = number(0) + number(len(first))
    inner = entry[:2] + bytes([len(handle)]) + entry[3 : 3 + key_size] + handle
    inner += struct.pack("<II", 0, 1)
    body = first + b"\x01" + bytes(4)
    place = len(body)
    body += inner + b"\x00" + bytes(4)
    footer = number(0) + number(0) + number(place) + number(len(inner))
    index.write_bytes(body + footer.ljust(40, b"\0") + data[-8:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("palmkit.engine.converters.tensorflow.bundle._check_crc", ignore)
        bundle = Bundle(index.with_suffix(""))
        for name, value in plain.items():
            np.testing.assert_array_equal(bundle.tensor(name), value)


# Mutations


def attempt(data: bytes) -> bool:
    """Convert; whether it worked. Anything but a typed error fails the test."""
    try:
        tensorflow.convert(data)
    except PalmError:
        return False
    return True


SEEDS = ["cond_lowered", "while_nested_lowered", "strided_slice", "conv", "map", "nms_combined"]


@pytest.mark.parametrize("name", SEEDS)
def test_changed_bytes(name: str) -> None:
    data, chance = OPERATORS[name]["graph"].tobytes(), random.Random(name)
    worked = 0
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        worked += attempt(
            bytes(changed[: chance.choice((None, None, None, chance.randrange(len(data))))])
        )
    assert worked < 40


@pytest.mark.parametrize("name", SEEDS)
def test_changed_messages(name: str) -> None:
    """Nodes rewired, attributes swapped, operators renamed: still protobuf, no longer a model."""
    chance = random.Random(name)
    for _ in range(40):
        message = messages()["GraphDef"].FromString(OPERATORS[name]["graph"].tobytes())
        for _ in range(chance.randrange(1, 4)):
            mutate(message, chance)
        attempt(message.SerializeToString())


def mutate(graph: Any, chance: random.Random) -> None:
    """One change of one node."""
    functions = [each.node_def for each in graph.library.function]
    nodes = chance.choice([graph.node, *functions])
    if not nodes:
        return
    node, other = chance.choice(nodes), chance.choice(nodes)
    kind = chance.randrange(6)
    if kind == 0 and node.input:
        node.input[chance.randrange(len(node.input))] = chance.choice(
            [other.name, f"{other.name}:{chance.randrange(4)}", "", "^x", f"{other.name}:y:1"]
        )
    elif kind == 1 and node.input:
        del node.input[chance.randrange(len(node.input))]
    elif kind == 2:
        node.op = other.op
    elif kind == 3 and node.attr:
        key = chance.choice(sorted(node.attr))
        del node.attr[key]
    elif kind == 4 and node.attr:
        key = chance.choice(sorted(node.attr))
        set_attr(node.attr[key], chance.choice([-1, 0, 1 << 40, "x", True, 0.5, (), (-1, 3)]))
    else:
        values = [each for each in nodes if "value" in each.attr]
        if values:
            tensor = chance.choice(values).attr["value"].tensor
            size = chance.choice([-1, 0, 1, 7, 1 << 40])
            if tensor.tensor_shape.dim and chance.random() < 0.5:
                tensor.tensor_shape.dim[0].size = size
            else:
                set_tensor(tensor, np.array(chance.choice([[], size, [size] * 3]), np.int64))
