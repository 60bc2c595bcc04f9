"""Plans in a model file: they run as the graph would, and damage to them is refused."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine import format as file_format
from palmkit.engine.bench.measurement import memory_in_use
from palmkit.engine.errors import ModelError, PalmError, ShapeError
from palmkit.engine.format import PLAN_FOOTER, PLAN_MARK, TRAILER, reader
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.model import Model
from tests.engine.format.samples import network, sealed
from tests.engine.format.test_format import assert_same, with_tables


def convolutions(side: int | str = 12, dtype: str = "float32") -> Graph:
    """Kernels of each kind: 3x3, 1x1, depthwise; an index table; half of the weights exact."""
    rng = np.random.default_rng(3)

    def weights(*shape: int) -> Array:
        return (rng.integers(-64, 64, shape) / 128).astype(dtype)

    nodes = (
        Node("conv", ("x", "w0", "b0"), ("a",), {"pads": (1, 1, 1, 1)}, "first"),
        Node("relu", ("a",), ("b",)),
        Node("conv", ("b", "w1"), ("c",), {"group": 40, "pads": (1, 1, 1, 1)}, "depthwise"),
        Node("conv", ("c", "w2"), ("d",), {}, "pointwise"),
        Node("conv", ("d", "w3"), ("e",), {"pads": (1, 1, 1, 1)}, "winograd"),
        Node("resize", ("e", "", "scales"), ("y",), {"mode": "linear"}, "larger"),
    )
    constants = {
        "w0": weights(40, 3, 3, 3),
        "b0": weights(40),
        "w1": weights(40, 1, 3, 3),
        "w2": weights(48, 40, 1, 1),
        "w3": (weights(40, 48, 3, 3) * np.float32(1.001)).astype(dtype),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }
    out = 2 * side if isinstance(side, int) else "double"
    return Graph(
        {"x": Type(dtype, (1, 3, side, side))},
        {"y": Type(dtype, (1, 40, out, out))},
        nodes,
        constants,
        {"kit": "test", "имя": "значение"},
    )


def unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Graph:
        raise AssertionError("the graph was read")

    monkeypatch.setattr(reader, "read", fail)


def section_of(content: bytes) -> tuple[int, int]:
    """Where the plans lie."""
    end = len(content) - TRAILER.size - PLAN_FOOTER.size
    mark, size, _, _ = PLAN_FOOTER.unpack_from(content, end)
    assert mark == PLAN_MARK
    return end - size, end


@pytest.mark.parametrize("weights", ["float32", "auto", "float16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_runs_as_the_graph_does_without_reading_it(
    weights: str, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = convolutions()
    path = tmp_path / "net.palm"
    engine.save(graph, path, weights)
    expected = Model(reader.load(path), threads=threads)
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float32)
    with monkeypatch.context() as patched:
        unreadable(patched)
        model = engine.load(path, threads=threads)
        y = model.run({"x": x})["y"]
        assert model.inputs == graph.inputs
        assert model.outputs == graph.outputs
        assert model.metadata == graph.metadata
        assert not model.fallbacks
        steps = [(step.node, step.op) for step in model.profile(runs=1)]
    assert np.array_equal(y, expected.run({"x": x})["y"])
    assert steps == [(step.node, step.op) for step in expected.profile(runs=1)]
    if weights != "float16":
        assert_same(model.graph, graph)


def test_half_precision_models_have_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.save(convolutions(dtype="float16"), tmp_path / "net.palm")
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12)).astype(np.float16)
    expected = Model(convolutions(dtype="float16")).run({"x": x})["y"]
    unreadable(monkeypatch)
    y = engine.load(tmp_path / "net.palm").run({"x": x})["y"]
    assert y.dtype == np.float16
    assert np.array_equal(y, expected)


def test_constants_that_runs_read_may_be_float16_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small and large ones: not those of convolutions, which are packed when the file is loaded."""
    rng = np.random.default_rng(0)
    nodes = (
        Node("gather", ("table", "indices"), ("rows",)),
        Node("mul", ("rows", "factors"), ("scaled",)),
        Node("add", ("scaled", "x"), ("y",)),
    )
    table = (rng.integers(-64, 64, (3000, 50)) / 128).astype(np.float32)
    factors = (rng.integers(-64, 64, (40, 50)) / 128).astype(np.float32)
    types = {"x": Type("float32", (40, 50)), "indices": Type("int64", (40,))}
    graph = Graph(types, {"y": types["x"]}, nodes, {"table": table, "factors": factors})
    engine.save(graph, tmp_path / "net.palm")
    assert (tmp_path / "net.palm").stat().st_size < table.nbytes
    x = rng.standard_normal((40, 50)).astype(np.float32)
    indices = rng.integers(0, 3000, 40)
    unreadable(monkeypatch)
    y = engine.load(tmp_path / "net.palm").run({"x": x, "indices": indices})["y"]
    assert np.array_equal(y, table[indices] * factors + x)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_a_loaded_model_takes_little_more_than_its_weights(tmp_path: Path) -> None:
    """They are neither held twice nor widened for good, and packed ones fill their pages."""
    side, layers = 128, 64
    rng = np.random.default_rng(0)
    kernel = (rng.integers(-64, 64, (layers, side, side, 1, 1)) / 128).astype(np.float32)
    names = ["x", *(f"y{i}" for i in range(layers))]
    nodes = tuple(
        node
        for i, (x, y) in enumerate(pairwise(names))
        for node in (Node("conv", (x, f"w{i}"), (f"c{i}",)), Node("sigmoid", (f"c{i}",), (y,)))
    )
    types = {name: Type("float32", (1, side, 7, 7)) for name in (names[0], names[-1])}
    graph = Graph(
        {names[0]: types[names[0]]},
        {names[-1]: types[names[-1]]},
        nodes,
        {f"w{i}": kernel[i] for i in range(layers)},
    )
    engine.save(graph, tmp_path / "net.palm")
    models = [engine.load(tmp_path / "net.palm")]
    before = memory_in_use()
    models.append(engine.load(tmp_path / "net.palm"))
    after = memory_in_use()
    assert before is not None
    assert after is not None
    assert after - before < 1.6 * kernel.nbytes


def test_weights_are_stored_once(tmp_path: Path) -> None:
    graph = convolutions()
    engine.save(graph, tmp_path / "net.palm", "float32")
    weights = sum(value.nbytes for value in graph.constants.values())
    assert weights < (tmp_path / "net.palm").stat().st_size < weights + 16_000
    read = reader.load(tmp_path / "net.palm")
    assert not read.constants["w3"].flags.c_contiguous
    assert_same(read, graph)


def test_model_with_open_sizes_has_plans_for_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = convolutions("side")
    engine.save(graph, tmp_path / "net.palm", shapes=[{"x": (1, 3, s, s)} for s in (8, 16)])
    rng = np.random.default_rng(0)
    images = [rng.standard_normal((1, 3, s, s)).astype(np.float32) for s in (8, 16, 24)]
    expected = [Model(graph).run({"x": image})["y"] for image in images]
    model = engine.load(tmp_path / "net.palm")
    with monkeypatch.context() as patched:
        unreadable(patched)
        for image, y in zip(images[:2], expected, strict=False):
            assert np.array_equal(model.run({"x": image})["y"], y)
    assert np.array_equal(model.run({"x": images[2]})["y"], expected[2])


@pytest.mark.parametrize(
    "shapes", [{}, {"x": (1, 3, 8, 9)}, {"x": (1, 4, 8, 8)}, {"x": (1, 3, 8, 8), "z": (1,)}]
)
def test_shapes_that_the_graph_does_not_take(shapes: Any, tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="shapes: "):
        engine.save(convolutions("side"), tmp_path / "net.palm", shapes=[shapes])
    assert not list(tmp_path.iterdir())


def test_what_the_backend_cannot_run_whole_has_no_plan(tmp_path: Path) -> None:
    type = Type("float32", (4,))
    graph = Graph({"x": type}, {"y": type}, (Node("bernoulli", ("x",), ("y",), {"seed": 1.0}),))
    engine.save(graph, tmp_path / "net.palm")
    assert PLAN_MARK not in (tmp_path / "net.palm").read_bytes()
    assert engine.load(tmp_path / "net.palm").fallbacks


@pytest.mark.parametrize("weights", ["auto", "float32", "float16", "smallest"])
def test_weights_of_products_are_read_where_they_lie(weights: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    constants: dict[str, Array] = {
        "w0": rng.standard_normal((64, 3, 2, 2), np.float32),
        "w1": rng.standard_normal((128, 64, 1, 1), np.float32),
        "w2": rng.standard_normal((24, 1, 1, 128), np.float32).transpose(0, 3, 1, 2),
        "w3": rng.standard_normal((60, 24, 1, 1), np.float32),
    }
    nodes: list[Node] = []
    for i in range(4):
        attrs = {"strides": (2, 2)} if i == 0 else {}
        nodes.append(Node("conv", (f"x{i}", f"w{i}"), (f"y{i}",), attrs))
        nodes.append(Node("relu", (f"y{i}",), (f"x{i + 1}",)))
    types = {"x0": Type("float32", (1, 3, 12, 12))}, {"x4": Type("float32", (1, 60, 6, 6))}
    graph = Graph(*types, tuple(nodes), constants)
    path = tmp_path / "net.palm"
    engine.save(graph, path, weights)
    assert (b"outputs_last" in path.read_bytes()) == (weights in ("auto", "float32"))
    # Once, and not once more for the plan.
    assert path.stat().st_size < sum(value.nbytes for value in constants.values()) + 8000
    model = engine.load(path)
    x = {"x0": rng.standard_normal((1, 3, 12, 12), np.float32)}
    stored = reader.load(path)
    for _ in range(2):
        assert np.array_equal(model.run(x)["x4"], Model(stored).run(x)["x4"])
    if weights != "float16":
        assert_same(stored, graph)


def test_plan_of_another_version_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = network()
    engine.save(graph, tmp_path / "net.palm")
    version = file_format.PLAN_VERSION
    monkeypatch.setattr("palmkit.engine.format.model_file.OLDEST_PLAN_VERSION", version + 1)
    model = engine.load(tmp_path / "net.palm")
    monkeypatch.undo()
    x = np.ones((1, 2, 3, 4), np.float32)
    assert np.array_equal(model.run({"x": x})["y"], Model(graph).run({"x": x})["y"])
    unreadable(monkeypatch)
    monkeypatch.setattr("palmkit.engine.format.model_file.OLDEST_PLAN_VERSION", version + 1)
    with pytest.raises(AssertionError, match="the graph was read"):
        engine.load(tmp_path / "net.palm")


@pytest.mark.parametrize("options", [{"backend": "reference"}, {"precision": "low"}])
def test_plan_is_for_full_precision_on_the_cpu(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.save(network(), tmp_path / "net.palm")
    x = np.ones((1, 2, 3, 4), np.float32)
    y = engine.load(tmp_path / "net.palm", **options).run({"x": x})["y"]
    assert np.allclose(y, Model(network()).run({"x": x})["y"], rtol=0.02)
    unreadable(monkeypatch)
    with pytest.raises(AssertionError, match="the graph was read"):
        engine.load(tmp_path / "net.palm", **options)


def test_damaged_plans_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    engine.save(convolutions(), path)
    good = path.read_bytes()
    begin, end = section_of(good)
    rng = random.Random(0)
    numbers = (0, 1, 2, 3, 5, 64, 127, 128, 255)
    refused = 0
    x = np.ones((1, 3, 12, 12), np.float32)
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(rng.choice((1, 1, 2))):
            place = rng.randrange(begin, end + PLAN_FOOTER.size)
            bad[place] = rng.choice(numbers) if rng.random() < 0.7 else rng.randrange(256)
        path.write_bytes(sealed(bad))
        try:
            model = engine.load(path)
            # Names and sizes may be others now, and the model a different one.
            if dict(model.inputs) == {"x": Type("float32", x.shape)}:
                model.run({"x": x})
        except PalmError:
            refused += 1
    assert refused > 700


def test_two_values_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    type = Type("float32", (2, 3))
    nodes = (Node("exp", ("x",), ("y0",)), Node("neg", ("x",), ("y1",)))
    engine.save(Graph({"x": type}, {"y0": type, "y1": type}, nodes), path)
    good = path.read_bytes()
    begin, end = section_of(good)
    section = good[begin:end]
    assert section.count(b"\2\0\0\0y1") == 1
    same = section.replace(b"\2\0\0\0y1", b"\2\0\0\0y0")
    path.write_bytes(sealed(good[:begin] + same + good[end:]))
    with pytest.raises(ModelError, match="two values are called y0"):
        engine.load(path)


def test_plans_that_are_cut_short_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    engine.save(network(), path)
    good = path.read_bytes()
    begin, end = section_of(good)
    for cut in range(1, end - begin, 7):
        footer = PLAN_FOOTER.pack(PLAN_MARK, end - begin - cut, file_format.PLAN_VERSION, 0)
        path.write_bytes(sealed(good[: end - cut] + footer + good[-TRAILER.size :]))
        with pytest.raises(PalmError):
            engine.load(path)


def test_footer_beyond_the_data_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    engine.save(network(), path)
    good = path.read_bytes()
    for size in (2**63, 2**64 - 1, len(good)):
        footer = PLAN_FOOTER.pack(PLAN_MARK, size, file_format.PLAN_VERSION, 0)
        end = section_of(good)[1]
        path.write_bytes(sealed(good[:end] + footer + good[-TRAILER.size :]))
        with pytest.raises(ModelError, match="plans do not fit"):
            engine.load(path)


@pytest.mark.parametrize("order", [[0, 0, 1, 2], [0, 1, 2], [0, 1, 2, 4], [0] * 300])
def test_order_that_is_none_is_refused(order: list[int], tmp_path: Path) -> None:
    path = tmp_path / "net.palm"
    engine.save(convolutions(), path, "float32")

    def change(model: Any) -> None:
        names = [constant.name for constant in model.constants]
        model.constants[names.index(b"w3")].storage.encoding.order = order

    with pytest.raises(ModelError, match="constant w3: not an order of its axes"):
        reader.loads(with_tables(path.read_bytes(), change))
