"""The model file: what is written is read; what is broken is refused with a typed error."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import os
import random
import re
from collections.abc import Callable
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.format import IDENTIFIER, TRAILER, VERSION, align, reader, writer
from palmkit.engine.format.consistency import STORED_DTYPES, verify
from palmkit.engine.format.encodings import stored_bytes
from palmkit.engine.format.generated.Bytes import BytesT
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.DataType import DataType
from palmkit.engine.format.generated.Model import ModelT
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.format.samples import everything, mutants, network, sealed, single_ops

GRAPHS: dict[str, Callable[[], Graph]] = {
    "everything": everything,
    "network": network,
    "nothing": lambda: Graph({}, {}, ()),
}


def assert_same(read: Graph, written: Graph) -> None:
    for field in ("inputs", "outputs", "constants", "metadata"):
        assert list(getattr(read, field)) == list(getattr(written, field)), field
    assert dict(read.inputs) == dict(written.inputs)
    assert dict(read.outputs) == dict(written.outputs)
    assert dict(read.metadata) == dict(written.metadata)
    assert read.nodes == written.nodes
    assert [node.name for node in read.nodes] == [node.name for node in written.nodes]
    for node, other in zip(read.nodes, written.nodes, strict=True):
        kinds = {name: type(value) for name, value in node.attrs.items()}
        assert kinds == {name: type(value) for name, value in other.attrs.items()}
    for name, value in written.constants.items():
        assert Type.of(read.constants[name]) == Type.of(value), name
        assert read.constants[name].tobytes() == value.tobytes(), name


def with_tables(content: bytes, change: Any) -> bytes:
    """The file with `change` made to its tables."""
    graph_size, _, version, _ = TRAILER.unpack(content[-TRAILER.size :])
    model: Any = ModelT.InitFromBuf(content, int.from_bytes(content[:4], "little"))
    change(model)
    builder: Any = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    tables = bytes(builder.Output())
    data = content[align(graph_size) : -TRAILER.size]
    padding = bytes(align(len(tables)) - len(tables))
    return sealed(tables + padding + data + TRAILER.pack(len(tables), 0, version, 0))


def with_trailer(content: bytes, graph_size: int, version: int) -> bytes:
    return sealed(content[: -TRAILER.size] + TRAILER.pack(graph_size, 0, version, 0))


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("weights", ["float32", "auto", "smallest"])
def test_reads_what_was_written(name: str, weights: str, tmp_path: Path) -> None:
    graph = GRAPHS[name]()
    writer.save(graph, tmp_path / "model.palm", weights)
    assert_same(reader.load(tmp_path / "model.palm"), graph)
    assert_same(reader.loads(writer.dumps(graph, weights)), graph)


def test_same_graph_gives_same_bytes() -> None:
    assert writer.dumps(everything()) == writer.dumps(everything())


def test_data_types_are_those_of_the_graph() -> None:
    named = [name for name, _ in sorted(vars(DataType).items(), key=lambda item: str(item[1]))]
    assert {name.lower() for name in named if name[0] != "_"} == set(STORED_DTYPES)
    assert [getattr(DataType, dtype.capitalize()) for dtype in STORED_DTYPES] == list(
        range(len(STORED_DTYPES))
    )


def test_constants_lie_aligned_and_read_only_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.palm"
    writer.save(everything(), path)
    content = path.read_bytes()
    for graph in (reader.load(path), reader.loads(content)):
        for name, value in graph.constants.items():
            assert not value.flags.writeable, name
            assert value.flags.c_contiguous, name
            if value.size:
                assert value.ctypes.data % 64 == 0, name
                assert value.base is not None, name
                assert content.find(value.tobytes()) % 64 == 0 or value.nbytes < 16, name
    # The mapping outlives the graph, for as long as one of its constants is in use.
    value = reader.load(path).constants["constant.float32"]
    path.unlink()
    assert value.sum() == 15


def test_constants_are_not_copied(tmp_path: Path) -> None:
    writer.save(everything(), tmp_path / "model.palm")
    graph = reader.load(tmp_path / "model.palm")
    places = [value.ctypes.data for value in graph.constants.values() if value.size]
    assert max(places) - min(places) < (tmp_path / "model.palm").stat().st_size


def weights_of(values: Array, weights: str) -> tuple[Array, int]:
    """What comes back of a constant, and the size of the file."""
    content = writer.dumps(Graph({}, {}, (), {"w": values}), weights)
    return reader.loads(content).constants["w"], len(content)


def test_auto_stores_float16_only_where_nothing_is_lost() -> None:
    exact = np.arange(4096, dtype=np.float32).reshape(64, 64) / 8
    exact[exact > 200] = np.inf
    inexact = exact + np.float32(1e-3)
    full = weights_of(exact, "float32")[1]
    read, size = weights_of(exact, "auto")
    assert full - size == 2 * exact.size
    assert read.dtype == np.float32
    assert np.array_equal(read, exact)
    read, size = weights_of(inexact, "auto")
    assert size == full
    assert np.array_equal(read, inexact)


def test_float16_rounds_kernels_but_not_vectors_nor_what_is_out_of_range() -> None:
    kernel = np.linspace(-1, 1, 3200, dtype=np.float32).reshape(10, 10, 32)
    full = weights_of(kernel, "float32")[1]
    read, size = weights_of(kernel, "float16")
    assert full - size == 2 * kernel.size
    assert np.array_equal(read, kernel.astype(np.float16).astype(np.float32))
    assert np.array_equal(weights_of(kernel.ravel(), "float16")[0], kernel.ravel())
    large = kernel * np.float32(1e5)
    assert np.array_equal(weights_of(large, "float16")[0], large)
    double = kernel.astype(np.float64)
    assert np.array_equal(weights_of(double, "float16")[0], double)


def test_strided_constants_are_written_in_order() -> None:
    values = np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1)[::-1]
    assert np.array_equal(weights_of(values, "float32")[0], values)
    swapped = values.astype(">i4")
    assert np.array_equal(weights_of(swapped, "float32")[0], values)


@pytest.mark.parametrize(
    "value", [None, [1], (1, 2.0), (1, "a"), 2**63, -(2**63) - 1, b"a", ((1,),), np.int64(3)]
)
def test_writer_refuses_an_attribute_it_cannot_hold(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(graph: Graph) -> None:
        """No op has the attribute, so that the graph would be refused before."""

    monkeypatch.setattr(writer, "verify", verify)
    nodes = (Node("relu", ("x",), ("y",), {"a": value}, "n"),)
    graph = Graph({"x": Type("float32", ("n",))}, {"y": Type("float32", ("n",))}, nodes)
    with pytest.raises(ModelError, match="node n: attribute a: expected int64, float or str"):
        writer.dumps(graph)


FLOAT = Type("float32", (2,))


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (Graph({"x": FLOAT}, {"y": FLOAT}, ()), ModelError, "written by nobody: y"),
        (Graph({"": FLOAT}, {}, ()), ModelError, "has no name"),
        (Graph({"x": Type("float8", ())}, {}, ()), ModelError, "unknown dtype"),
        (Graph({}, {}, (), {"w": np.array(["a"])}), ModelError, "unknown dtype"),
        (Graph({"x": Type("int8", (1,) * 9)}, {}, ()), ShapeError, "at most 8 dims"),
        (Graph({"x": Type("int8", (2**31,))}, {}, ()), ShapeError, "expected dims"),
        (Graph({"x": Type("int8", (-1,))}, {}, ()), ModelError, "a dim below 0"),
        (Graph({"x": Type("int8", ("",))}, {}, ()), ShapeError, "expected dims"),
        (Graph({"x": Type("int8", (2**16,) * 2)}, {}, ()), ShapeError, "at most 2147483648"),
        (
            Graph({"x": FLOAT}, {"x": Type("float32", (3,))}, ()),
            ShapeError,
            r"output x: expected float32\[3\], got float32\[2\]",
        ),
        (
            Graph({"x": FLOAT}, {"y": FLOAT}, (Node("relu", ("x", "x"), ("y",)),)),
            ModelError,
            "relu does not take",
        ),
        (
            Graph({"x": FLOAT}, {"z": FLOAT}, (Node("relu", ("x",), ("y", "z")),)),
            ModelError,
            "gives 1 outputs, the model names 2",
        ),
        (
            Graph({"x": FLOAT}, {}, (Node("no_such_op", ("x",), ("y",)),)),
            UnsupportedError,
            "no op 'no_such_op'",
        ),
        (Graph({"x": FLOAT}, {}, (Node("..relu", ("x",), ("y",)),)), ModelError, "name of an op"),
        (Graph({"x": FLOAT}, {}, (Node("__init__", ("x",), ("y",)),)), ModelError, "name of an"),
        (Graph({"x": FLOAT}, {}, (Node("relu", ("x",), ("",)),)), ModelError, "writes nothing"),
        (Graph({"\ud800": FLOAT}, {}, ()), ModelError, "not text"),
    ],
)
def test_writer_refuses_what_the_reader_would(
    graph: Graph, error: type[PalmError], message: str
) -> None:
    with pytest.raises(error, match=message):
        writer.dumps(graph)


def test_every_cut_is_refused(tmp_path: Path) -> None:
    content = writer.dumps(network())
    path = tmp_path / "model.palm"
    for size in range(len(content)):
        with pytest.raises(ModelError):
            reader.loads(content[:size])
    for size in (*range(40), len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ModelError, match=re.escape(str(path))):
            reader.load(path)


def test_every_flipped_bit_is_refused() -> None:
    content = writer.dumps(network())
    for bit in range(8 * len(content)):
        broken = bytearray(content)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ModelError):
            reader.loads(bytes(broken))


@pytest.mark.parametrize("tail", [b"\0", b"\n", bytes(64), b"PALM"])
def test_bytes_after_the_end_are_refused(tail: bytes) -> None:
    content = writer.dumps(network())
    for broken in (content + tail, tail + content, content + content):
        with pytest.raises(ModelError):
            reader.loads(broken)


@pytest.mark.parametrize("name", ["everything", "network"])
def test_damage_behind_a_right_checksum(name: str) -> None:
    """The checksum guards against accidents only: what is behind it is not trusted either."""
    content = writer.dumps(GRAPHS[name]())
    for broken in islice(mutants(content, random.Random(name)), 5000):
        try_to_read(broken)


def test_damage_to_every_op() -> None:
    """What the type rules of the ops make of attributes and shapes that are nonsense."""
    rng = random.Random(0)
    for graph in single_ops():
        for broken in islice(mutants(writer.dumps(graph), rng), 25):
            try_to_read(broken)


def try_to_read(content: bytes) -> None:
    try:
        graph = reader.loads(content)
    except PalmError:
        return
    verify(graph)
    assert sum(value.nbytes for value in graph.constants.values()) <= 2 * len(content)


def test_many_pointers_to_one_table_are_refused_at_once() -> None:
    """A file of 160 KB that would be 400 million strings."""
    builder: Any = flatbuffers.Builder()
    text = builder.CreateString("relu")

    def vector(offset: int) -> int:
        builder.StartVector(4, 20_000, 4)
        for _ in range(20_000):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    inputs = vector(text)
    builder.StartObject(5)
    for slot, offset in ((0, text), (1, text), (2, inputs)):
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    nodes = vector(builder.EndObject())
    builder.StartObject(6)
    builder.PrependUOffsetTRelativeSlot(5, nodes, 0)
    builder.Finish(builder.EndObject(), file_identifier=IDENTIFIER)
    tables = bytes(builder.Output())
    padding = bytes(align(len(tables)) - len(tables))
    content = sealed(tables + padding + TRAILER.pack(len(tables), 0, VERSION, 0))
    with pytest.raises(ModelError, match="more in the tables than the file holds"):
        reader.loads(content)


def test_constants_may_not_share_bytes() -> None:
    """Else a small file could hold any number of float16 constants that are large when read."""
    graph = Graph({}, {}, (), {"w": np.ones((64, 64), np.float32)})

    def repeat(model: Any) -> None:
        model.constants.append(copy(first(model)))
        model.constants[1].name = "again"

    with pytest.raises(ModelError, match="more in the constants than the file holds"):
        reader.loads(with_tables(writer.dumps(graph, "auto"), repeat))


def first(model: Any) -> Any:
    return model.constants[0]


def run(offset: int, size: int) -> Any:
    table: Any = BytesT()
    table.offset, table.size = offset, size
    return table


@pytest.mark.parametrize(
    ("offset", "size"),
    [(0, 31), (0, 2**64 - 1), (2**64 - 64, 32), (2**63, 32), (33, 32), (64, 32), (0, 0)],
)
def test_constant_outside_of_the_data_is_refused(offset: int, size: int) -> None:
    graph = Graph({}, {}, (), {"w": np.ones((2, 4), np.float32)})

    def change(model: Any) -> None:
        first(model).storage.encoding.bytes = run(offset, size)

    with pytest.raises(ModelError, match="constant w: "):
        reader.loads(with_tables(writer.dumps(graph), change))


@pytest.mark.parametrize("shape", [[2**63, 2], [2**31, 0], [2**62, 4, 0], [1] * 9, [2**64 - 1]])
def test_constant_with_an_absurd_shape_is_refused(shape: list[int]) -> None:
    graph = Graph({}, {}, (), {"w": np.ones((2, 4), np.float32)})

    def change(model: Any) -> None:
        first(model).shape = shape

    with pytest.raises(ModelError, match="constant w: "):
        reader.loads(with_tables(writer.dumps(graph), change))


def test_bool_constant_holds_only_0_and_1() -> None:
    content = writer.dumps(Graph({}, {}, (), {"w": np.array([True, True, True])}))
    assert reader.loads(content).constants["w"].all()
    with pytest.raises(ModelError, match="expected bytes of 0 and 1"):
        reader.loads(sealed(content.replace(b"\1\1\1\0\0\0\0\0", b"\1\2\1\0\0\0\0\0")))


@pytest.mark.parametrize("coding", [Coding.Deflate, 77])
def test_coding_of_another_engine_is_named(coding: int) -> None:
    graph = Graph({}, {}, (), {"w": np.ones((2, 4), np.float32)})

    def change(model: Any) -> None:
        first(model).storage.encoding.bytes.coding = coding

    with pytest.raises(UnsupportedError, match=f"constant w: coding {coding}; upgrade"):
        reader.loads(with_tables(writer.dumps(graph), change))


def test_feature_that_is_not_known_is_named() -> None:
    def change(model: Any) -> None:
        model.features = ["encryption", "sound"]

    with pytest.raises(UnsupportedError, match="upgrade palmkit: .* encryption, sound"):
        reader.loads(with_tables(writer.dumps(network()), change))


def test_two_entries_of_one_name_are_refused() -> None:
    for field in ("inputs", "outputs", "constants", "metadata"):

        def change(model: Any, field: str = field) -> None:
            entries = getattr(model, field)
            entries.append(entries[0])

        with pytest.raises(ModelError, match="two entries have one name"):
            reader.loads(with_tables(writer.dumps(network()), change))


def test_newer_format_says_upgrade() -> None:
    content = writer.dumps(network())
    graph_size = TRAILER.unpack(content[-TRAILER.size :])[0]
    reader.loads(with_trailer(content, graph_size, VERSION))
    with pytest.raises(ModelError, match=f"upgrade .* knows version {VERSION}; .*: {VERSION + 1}"):
        reader.loads(with_trailer(content, graph_size, VERSION + 1))
    with pytest.raises(ModelError, match="damaged"):
        reader.loads(with_trailer(content, graph_size, 0))
    for size in (0, 8, len(content), 2**63, 2**64 - 1):
        with pytest.raises(ModelError, match="damaged"):
            reader.loads(with_trailer(content, size, VERSION))


@pytest.mark.parametrize("content", [b"", b"PALM", b"\0\0\0\0PALM", b"text\n" * 99, bytes(999)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.palm"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"^{re.escape(str(path))}: "):
        reader.load(path)
    with pytest.raises(ModelError):
        reader.loads(content)


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "missing.palm", tmp_path / "pipe", Path("a\0b")):
        with pytest.raises(ModelError):
            reader.load(path)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_save_leaves_the_old_file(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.palm"
    writer.save(network(), path)
    before = path.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(OSError, match="disk full"):
            writer.save(everything(), path)
    assert os.listdir(tmp_path) == ["model.palm"]
    assert path.read_bytes() == before
    writer.save(everything(), path)
    assert_same(reader.load(path), everything())
    with pytest.raises(ModelError):
        writer.save(Graph({}, {"y": FLOAT}, ()), path)
    assert_same(reader.load(path), everything())


def test_saving_over_a_loaded_model_leaves_its_constants(tmp_path: Path) -> None:
    path = tmp_path / "model.palm"
    writer.save(network(), path)
    graph = reader.load(path)
    writer.save(everything(), path)
    assert_same(graph, network())


def test_unknown_weights_are_a_mistake() -> None:
    with pytest.raises(
        ValueError, match="weights: expected one of float32, float16, auto, smallest, got 'int3'"
    ):
        writer.dumps(network(), "int3")


def test_stored_bytes_count_the_constants_of_bodies(tmp_path: Path) -> None:
    graph, path = everything(), tmp_path / "model.palm"
    writer.save(graph, path)
    sizes = stored_bytes(path)
    constants = [*graph.constants.values()]
    constants += [value for body in graph.nodes[1].bodies for value in body.constants.values()]
    assert sizes["bool"] == 6 + 1 + 1
    assert sum(sizes.values()) == sum(value.nbytes for value in constants)
