"""Constants that are stored in fewer bytes: every bit comes back, and damage is refused."""

# The generated code has no types.
# pyright: reportUnknownMemberType=false

import random
import struct
import zlib
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.errors import ModelError, PalmError, ShapeError, UnsupportedError
from palmkit.engine.format import data as data_section
from palmkit.engine.format import most_decoded, reader, storage, writer
from palmkit.engine.format.encodings import stored_bytes
from palmkit.engine.format.generated.Coding import Coding
from palmkit.engine.format.generated.Positions import Positions
from palmkit.engine.format.sections import inflated
from palmkit.engine.format.storage import Codebook, Half, Quantized, Raw, Sparse
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.format.samples import coded, mutants, storages, unpacked
from tests.engine.format.test_format import assert_same, first, with_tables

native = pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

CODINGS = {"huffman": Coding.Huffman, "rans": Coding.Rans, "planes": Coding.Planes}
KINDS = {"raw": Raw, "half": Half, "quantized": Quantized, "sparse": Sparse, "codebook": Codebook}


def decoded(coding: str, content: bytes, count: int) -> bytes:
    """What native code makes of a run of bytes."""
    to = np.empty(count, np.uint8)
    recipe = struct.pack("<BQQB", 0, 0, len(content), CODINGS[coding])
    native.decode(recipe, np.frombuffer(content, np.uint8), to)
    return to.tobytes()


def histograms(count: int) -> dict[str, Array]:
    rng = np.random.default_rng(count)
    steep = np.minimum(rng.geometric(0.5, count) - 1, 255)
    return {
        "equal": rng.integers(0, 256, count),
        "bell": np.clip(np.rint(rng.normal(128, 12, count)), 0, 255),
        "steep": steep,
        "zeros": np.where(rng.random(count) < 0.02, 255, 0),
        "one": np.full(count, 200),
        "fibonacci": np.minimum(np.rint(np.log1p(rng.random(count) * 1e9) * 1.7), 255),
    }


def entropy_bytes(values: Array) -> float:
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(shares * np.log2(shares)).sum()) * len(values) / 8


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 1023, 1024, 1025, 1030, 4099, 50000])
def test_coded_bytes_come_back(coding: str, count: int) -> None:
    for name, values in histograms(count).items():
        values = values.astype(np.uint8)
        for planes in (2, 4, 8) if coding == "planes" else (1,):
            if count % planes:
                assert native.encode(coding, values, planes) == b""
                continue
            content = native.encode(coding, values, planes)
            if coding == "rans" and len(set(values.tolist())) == 1:
                assert content == b""
                continue
            assert decoded(coding, content, count) == values.tobytes(), name


@pytest.mark.parametrize("name", ["bell", "steep", "zeros", "equal"])
def test_rans_comes_close_to_the_entropy(name: str) -> None:
    values = histograms(50000)[name].astype(np.uint8)
    # The table takes up to 300 bytes, and frequencies are rounded to 1 of 4096.
    assert len(native.encode("rans", values)) < 1.02 * entropy_bytes(values) + 300
    assert len(native.encode("huffman", values)) < 50000 / 8 + entropy_bytes(values) + 300


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("count", [5, 1024, 3000])
def test_damaged_runs_are_refused_or_decode_to_something(coding: str, count: int) -> None:
    rng = random.Random(count)
    values = (histograms(count + count % 2)["bell"]).astype(np.uint8)
    content = native.encode(coding, values, 2)
    refused = 0
    for _ in range(400):
        bad = bytearray(content)
        for _ in range(rng.choice((1, 2, 5))):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        del bad[len(bad) - rng.choice((0, 0, 1, 5)) :]
        try:
            decoded(coding, bytes(bad), len(values))
        except ModelError:
            refused += 1
    assert refused > 100
    for size in range(len(content)):
        with pytest.raises(ModelError):
            decoded(coding, content[:size], len(values))


@pytest.mark.parametrize("name", KINDS)
def test_the_smallest_storage_is_found_and_comes_back(name: str) -> None:
    value = storages()[name]
    assert type(storage.smallest(value)) is KINDS[name]
    graph = Graph({}, {}, (), {"w": value, "scalar": np.array(2.5), "few": np.arange(5)})
    content = writer.dumps(graph, "smallest")
    assert_same(reader.loads(content), graph)
    plain = len(writer.dumps(graph, "auto"))
    assert len(content) < plain * {"raw": 1, "half": 0.95}.get(name, 0.7)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float16", "int64", "float64", "bool"])
def test_other_types_come_back(dtype: str) -> None:
    rng = np.random.default_rng(0)
    values = {
        "few": rng.integers(0, 2, (40, 50)),
        "many": np.rint(rng.normal(0, 9, (40, 50))),
        "zeros": np.where(rng.random((40, 50)) < 0.05, rng.integers(0, 99, (40, 50)), 0),
    }
    graph = Graph({}, {}, (), {name: each.astype(dtype) for name, each in values.items()})
    content = writer.dumps(graph, "smallest")
    assert_same(reader.loads(content), graph)
    assert len(content) < len(writer.dumps(graph))


def test_odd_floats_come_back() -> None:
    odd = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-45, -1e-45, 3e38], np.float32)
    rng = np.random.default_rng(0)
    constants: dict[str, Array] = {
        "odd": rng.choice(odd, (30, 40)),
        "negative zeros": np.full((20, 20), -0.0, np.float32),
        "zeros": np.zeros((20, 20), np.float32),
        "tiny": (rng.integers(-7, 8, (20, 20)) * np.float32(1e-45)).astype(np.float32),
        "whole": rng.integers(-200, 200, (20, 20)).astype(np.float32),
        "empty": np.zeros((0, 4), np.float32),
    }
    graph = Graph({}, {}, (), constants)
    assert_same(reader.loads(writer.dumps(graph, "smallest")), graph)


@pytest.mark.parametrize("levels", [1, 3, 7, 31, 127])
@pytest.mark.parametrize("axis", [0, 1, 3, None])
def test_int8_times_scales_is_found(levels: int, axis: int | None) -> None:
    rng = np.random.default_rng(levels)
    weights = rng.normal(0, 1, (16, 12, 3, 8)).astype(np.float32)
    axes = tuple(each for each in range(4) if each != axis)
    scales = np.abs(weights).max(axis=axes, keepdims=True) / np.float32(levels)
    whole = np.rint(weights / scales).astype(np.int8)
    value = whole.astype(np.float32) * scales
    assert value.dtype == np.float32
    found = storage.smallest(value)
    # One scale for all makes few values, which may take less as a codebook.
    assert isinstance(found, Quantized) or axis is None
    assert found.size_bytes < 0.35 * value.nbytes
    graph = Graph({}, {}, (), {"w": value})
    assert_same(reader.loads(writer.dumps(graph, "smallest")), graph)


def positions_of(value: Array, kind: int) -> Sparse:
    """The constant with positions of a kind."""
    flat = value.ravel()
    places = np.flatnonzero(flat)
    if kind == Positions.Bitmap:
        run = storage.plain(np.packbits(flat != 0, bitorder="little"))
    elif kind == Positions.Uint32Indices:
        run = storage.plain(places.astype(np.uint32))
    else:
        dtype = np.uint8 if kind == Positions.Uint8Gaps else np.uint16
        widest, filled = int(np.iinfo(dtype).max), [-1]
        for place in places:
            while place - filled[-1] - 1 > widest:
                filled.append(filled[-1] + 1 + widest)
            filled.append(int(place))
        places = np.array(filled[1:], np.int64)
        run = storage.plain((np.diff(filled) - 1).astype(dtype))
    return Sparse(kind, len(places), run, Raw(storage.plain(flat[places])))


@pytest.mark.parametrize("kind", range(4))
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.02, 0.5, 1.0])
def test_positions_of_every_kind(kind: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    value = np.where(rng.random((301, 233)) < share, rng.random((301, 233)), 0).astype(np.float32)

    def forced(value: Array, only_raw: bool) -> Sparse:
        assert not only_raw
        return positions_of(value, kind)

    monkeypatch.setattr(data_section, "smallest", forced)
    graph = Graph({}, {}, (), {"w": value})
    assert_same(reader.loads(writer.dumps(graph, "smallest")), graph)


@pytest.mark.parametrize("share", [0.0005, 0.02, 0.5])
def test_sparse_constants_pay(share: float) -> None:
    rng = np.random.default_rng(4)
    value = np.where(rng.random((301, 233)) < share, rng.random((301, 233)), 0).astype(np.float32)
    found = storage.smallest(value)
    assert isinstance(found, Sparse)
    bits = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    # 29 bits of a random float32 are random; positions cost their entropy.
    assert found.size_bytes < 1.15 * value.size * (bits + 29 * share) / 8 + 200


def test_plans_run_from_coded_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = coded()
    engine.save(graph, tmp_path / "plain.palm")
    engine.save(graph, tmp_path / "small.palm", "smallest")
    (shape,) = (type.dims for type in graph.inputs.values())
    inputs = {"v0": np.random.default_rng(0).normal(size=shape).astype(np.float32)}
    expected = engine.load(tmp_path / "plain.palm").run(inputs)
    assert_same(reader.load(tmp_path / "small.palm"), graph)

    def fail(*_: Any) -> Graph:
        raise AssertionError("the graph was read")

    monkeypatch.setattr(reader, "read", fail)
    for threads in (1, 2):
        got = engine.load(tmp_path / "small.palm", threads=threads).run(inputs)
        assert got["v5"].tobytes() == expected["v5"].tobytes()


def test_small_file_of_a_network(tmp_path: Path) -> None:
    """Kernels that a plan has in another order, float16 ones among them."""
    rng = np.random.default_rng(0)
    w = rng.normal(0, 0.1, (32, 16, 3, 3)).astype(np.float32)
    constants: dict[str, Array] = {
        "w": np.where(rng.random(w.shape) < 0.3, w, np.float32(0)),
        "b": rng.normal(size=32).astype(np.float16).astype(np.float32),
    }
    graph = Graph(
        {"x": Type("float32", (1, 16, 9, 9))},
        {"y": Type("float32", (1, 32, 7, 7))},
        (Node("conv", ("x", "w", "b"), ("y",)),),
        constants,
    )
    engine.save(graph, tmp_path / "plain.palm")
    engine.save(graph, tmp_path / "small.palm", "smallest")
    sizes = stored_bytes(tmp_path / "small.palm")
    assert set(sizes) == {"float32 as sparse", "float32 as half"} or "float32 as float16" in sizes
    x = {"x": rng.normal(size=(1, 16, 9, 9)).astype(np.float32)}
    small, plain = (engine.load(tmp_path / f"{name}.palm") for name in ("small", "plain"))
    assert small.run(x)["y"].tobytes() == plain.run(x)["y"].tobytes()
    assert_same(small.graph, graph)


def test_damage_to_coded_constants(tmp_path: Path) -> None:
    graph = coded()
    content = unpacked(graph)
    path = tmp_path / "bad.palm"
    (shape,) = (type.dims for type in graph.inputs.values())
    outcomes = Counter[str]()
    for bad in islice(mutants(content, random.Random(5)), 600):
        path.write_bytes(bad)
        try:
            model = engine.load(path)
            model.run({"v0": np.zeros(shape, np.float32)})
            outcomes["runs"] += 1
        except PalmError as error:
            outcomes[type(error).__name__] += 1
        try:
            reader.load(path)
        except PalmError as error:
            outcomes[f"graph {type(error).__name__}"] += 1
    assert outcomes["ModelError"] > 100
    assert outcomes["graph ModelError"] > 100


def test_little_that_says_it_is_much_is_refused() -> None:
    """Else a small file could fill the memory."""
    graph = Graph({}, {}, (), {"w": np.zeros((64, 64), np.float32)})

    def change(model: Any) -> None:
        first(model).shape = [2**14, 2**14]
        first(model).storage.encoding.bytes.decodedSize = 2**30

    content = writer.dumps(graph, "smallest", deflated=False)
    assert most_decoded(len(content)) < 2**30
    with pytest.raises(ModelError, match="more in the constants than the file can hold"):
        reader.loads(with_tables(content, change))


def test_a_large_constant_of_one_number_is_written_so_that_it_is_read() -> None:
    graph = Graph({}, {}, (), {"w": np.ones((2**11, 2**12), np.float32)})
    content = writer.dumps(graph, "smallest")
    assert len(content) < 2**16
    assert_same(reader.loads(content), graph)


def test_tables_that_are_too_much_are_refused() -> None:
    packed = zlib.compress(bytes(10000))
    assert inflated(memoryview(packed), 10000) == bytes(10000)
    for size in (0, 9999, 10001, 2**40):
        with pytest.raises(ModelError, match="damaged"):
            inflated(memoryview(packed), size)
    with pytest.raises(ModelError, match="damaged"):
        inflated(memoryview(packed + b"x"), 10000)
    with pytest.raises(ModelError, match="damaged"):
        inflated(memoryview(packed[:-1]), 10000)


def test_tables_may_not_be_packed_twice() -> None:
    content = writer.dumps(Graph({}, {}, (), {"w": np.arange(4)}), "smallest")

    def change(model: Any) -> None:
        model.packed = None

    with pytest.raises(ModelError, match="damaged: no packed tables"):
        reader.loads(with_tables(content, change))


def test_half_and_int8_are_of_float32_alone() -> None:
    graph = Graph({}, {}, (), {"w": storages()["quantized"]})

    def change(model: Any) -> None:
        first(model).type = 7  # int32

    with pytest.raises(UnsupportedError, match="int32 constants that are stored as Quantized"):
        reader.loads(with_tables(writer.dumps(graph, "smallest", deflated=False), change))


def test_recipes_are_not_trusted() -> None:
    rng = random.Random(0)
    data = np.frombuffer(native.encode("rans", np.arange(200, dtype=np.uint8)), np.uint8)
    parts = [
        struct.pack("<BQQB", rng.choice((0, 1)), 0, len(data), 2),
        struct.pack("<BQI", 2, 1, 4),
        struct.pack("<BBQ", 3, 1, 10),
        struct.pack("<BBI", 4, 4, 16),
        struct.pack("<QQB", 0, len(data), 2),
        struct.pack("<QQB", 2**63, 2**63, 0),
    ]
    for _ in range(2000):
        recipe = b"".join(rng.choice(parts) for _ in range(rng.randrange(1, 7)))
        with pytest.raises((ModelError, ShapeError)):
            native.decode(recipe, data, np.empty(199, np.float32))
