"""Shipped models in fewer bytes: the first width whose metric holds."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine import Graph, load, save
from palmkit.engine.compress.rounding import in_half
from palmkit.engine.ir import Array, Node, Type
from palmkit.models.quantization import Task
from palmkit.models.smaller import make_smaller, share_lost


def test_errors_grow_and_all_else_shrinks() -> None:
    was = {"ap": 0.9, "landmark_error": 0.05}
    assert share_lost(was, was) == 0
    assert share_lost(was, {"ap": 0.891, "landmark_error": 0.04}) == pytest.approx(0.01)
    assert share_lost(was, {"ap": 0.95, "landmark_error": 0.06}) == pytest.approx(0.2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two layers of random weights."""
    draw = np.random.default_rng(0)
    weights = {
        "first": draw.normal(size=(64, 32)).astype(np.float32),
        "second": draw.normal(size=(32, 64)).astype(np.float32),
    }
    nodes = (
        Node("gemm", ("x", "first"), ("a",), {"transB": 1}),
        Node("relu", ("a",), ("b",)),
        Node("gemm", ("b", "second"), ("y",), {"transB": 1}),
    )
    kind = Type("float32", (1, 32))
    save(Graph({"x": kind}, {"y": kind}, nodes, weights), tmp_path / "net.palm", "float32")
    return tmp_path / "net.palm"


def task(model: Path) -> Task:
    """How alike outputs are on other samples."""
    draw = np.random.default_rng(1)
    samples = [{"x": draw.normal(size=(1, 32)).astype(np.float32)} for _ in range(60)]
    others = [{"x": draw.normal(size=(1, 32)).astype(np.float32)} for _ in range(20)]

    def run(path: Path) -> Array:
        return np.stack([load(path).run(each)["y"] for each in others])

    wanted = run(model)

    def measure(path: Path) -> Mapping[str, float]:
        return {"alike": 1 - float(np.mean((run(path) - wanted) ** 2) / np.mean(wanted**2))}

    return Task(samples, measure)


def test_smallest_that_holds_is_written(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    given = task(model)
    width = make_smaller(model, out, given)
    assert [path.name for path in out.iterdir()] == ["net.palm"]
    assert share_lost({"alike": 1.0}, given.measure(out / "net.palm")) <= 0.01
    assert (out / "net.palm").stat().st_size < 0.35 * model.stat().st_size
    # A metric that has to hold better takes finer steps.
    strict = Task(given.samples, lambda path: {"alike": 10 * given.measure(path)["alike"] - 9})
    finer = make_smaller(model, out, strict)
    assert finer < width


def test_no_file_where_none_holds(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    given = task(model)
    impossible = Task(given.samples, lambda path: {"same": float(path == model)})
    with pytest.raises(ValueError, match="net: every width loses more than 1.0%"):
        make_smaller(model, out, impossible)
    assert not [*out.iterdir()]


def test_in_turn_writes_a_smaller_file_too(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    samples = [
        {"x": each} for each in np.random.default_rng(3).normal(size=(40, 1, 32)).astype("f4")
    ]
    task = Task(samples, lambda path: {"ap": 1.0})
    assert make_smaller(model, out, task, widths=(1.0,), in_turn=True) == 1.0
    assert (out / model.name).stat().st_size < 0.5 * model.stat().st_size


def test_what_is_not_rounded_is_as_float16_has_it() -> None:
    constants: dict[str, Array] = {
        "weight": np.full((2, 2), 0.1, np.float32),
        "bias": np.full(2, 0.1, np.float32),
        "axes": np.arange(2),
    }
    nodes = (Node("gemm", ("x", "weight", "bias"), ("y",)),)
    graph = Graph({"x": Type("float32", (1, 2))}, {"y": Type("float32", (1, 2))}, nodes, constants)
    found = in_half(graph, without=["weight"]).constants
    assert found["bias"].tolist() == [float(np.float16(0.1))] * 2
    assert all(np.array_equal(found[name], constants[name]) for name in ("weight", "axes"))
