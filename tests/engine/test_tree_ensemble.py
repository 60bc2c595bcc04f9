"""Decision trees: exact to the bit, in any order of features' numbers, and never a circle."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends import BACKENDS
from palmkit.engine.errors import ShapeError, UnsupportedError
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.model import Model
from palmkit.engine.ops import find, input_names
from palmkit.engine.ops.tree_ensemble import Aggregate, Mode

NAMES = input_names("tree_ensemble")
CASES = [each for each in find("tree_ensemble").cases if len(each.inputs) == len(NAMES)]


def forest(number: int = 0) -> dict[str, Array]:
    """Return the trees of one of the op's cases, with a copy of each array."""
    inputs = zip(NAMES[1:], CASES[number].inputs[1:], strict=True)
    return {name: np.array(value) for name, value in inputs}


def graph(trees: dict[str, Array], features: int = 6, **attrs: Any) -> Graph:
    targets = int(attrs.get("n_targets", 1))
    node = Node(
        "tree_ensemble", ("x", *(n if n in trees else "" for n in NAMES[1:])), ("y",), attrs
    )
    x, y = Type("float32", ("rows", features)), Type("float32", ("rows", targets))
    return Graph({"x": x}, {"y": y}, (node,), trees)


def stump(mode: Mode, split: float, tracks: int = 0, members: Any = ()) -> dict[str, Array]:
    """Return one node that says 1 where its branch is true, else 0."""
    sets = [*members, np.nan] if mode is Mode.MEMBER else []
    values: dict[str, tuple[Any, str]] = {
        "nodes_featureids": ([0], "int32"),
        "nodes_modes": ([mode], "uint8"),
        "nodes_splits": ([split], "float32"),
        "nodes_truenodeids": ([1], "int32"),
        "nodes_falsenodeids": ([0], "int32"),
        "nodes_trueleafs": ([1], "uint8"),
        "nodes_falseleafs": ([1], "uint8"),
        "leaf_targetids": ([0, 0], "int32"),
        "leaf_weights": ([0, 1], "float32"),
        "tree_roots": ([0], "int32"),
        "nodes_missing_value_tracks_true": ([tracks], "uint8"),
        "membership_values": (sets, "float32"),
    }
    return {name: np.array(value, dtype) for name, (value, dtype) in values.items()}


def both(trees: dict[str, Array], x: Array, **attrs: Any) -> Array:
    """Return the result, the same of both backends to the bit."""
    made = graph(trees, x.shape[1], **attrs)
    found = [Model(made, backend, threads=2).run({"x": x})["y"] for backend in ("reference", "cpu")]
    np.testing.assert_array_equal(found[1], found[0])
    return found[1]


TINY = np.float32(1e-45)
ODD = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, TINY, -TINY, 3.4e38, -3.4e38, 1, np.nextafter(1, 2), -1],
    np.float32,
)
HOLDS: dict[Mode, Callable[[Array, Array], Array]] = {
    Mode.LEQ: np.less_equal,
    Mode.LT: np.less,
    Mode.GTE: np.greater_equal,
    Mode.GT: np.greater,
    Mode.EQ: np.equal,
    Mode.NEQ: np.not_equal,
}


@pytest.mark.parametrize("tracks", [0, 1])
@pytest.mark.parametrize("mode", Mode)
def test_odd_numbers_on_both_sides(mode: Mode, tracks: int) -> None:
    x = ODD[:, None]
    for split in ODD:
        wanted = HOLDS.get(mode, np.equal)(ODD, split) | (np.isnan(ODD) & bool(tracks))
        members = () if np.isnan(split) else (split, split)
        found = both(stump(mode, float(split), tracks, members), x)[:, 0]
        np.testing.assert_array_equal(found, wanted)


def test_members_of_larger_sets() -> None:
    random = np.random.default_rng(0)
    for count in (0, 1, 2, 3, 7, 64, 500):
        members = random.integers(-600, 600, count).astype(np.float32)
        x = np.arange(-700, 700).astype(np.float32)
        for tracks in (0, 1):
            found = both(
                stump(Mode.MEMBER, 0, tracks, members), np.append(x, np.float32(np.nan))[:, None]
            )
            np.testing.assert_array_equal(found[:-1, 0], np.isin(x, members))
            assert found[-1, 0] == tracks


@pytest.mark.parametrize("aggregate", Aggregate)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64, 333])
def test_sums_are_those_of_numpy_to_the_bit(rows: int, aggregate: Aggregate) -> None:
    random = np.random.default_rng(rows)
    x = (random.integers(-4, 5, (rows, 6)) / 2).astype(np.float32)
    x[random.random(x.shape) < 0.1] = np.nan
    attrs = {"aggregate_function": int(aggregate)}
    both(forest(0), x, **attrs)
    both(forest(1), x, n_targets=4, **attrs)
    both(forest(5), x, n_targets=3, **attrs)


def test_a_deep_tree_and_a_wide_one() -> None:
    """A chain of 20,000 nodes, and as many targets: soon done, whatever the rows."""
    count = 20_000
    trees: dict[str, Array] = {
        "nodes_featureids": np.zeros(count, np.int32),
        "nodes_modes": np.full(count, Mode.GT, np.uint8),
        "nodes_splits": np.arange(count, dtype=np.float32),
        "nodes_truenodeids": np.append(np.arange(1, count), count).astype(np.int32),
        "nodes_falsenodeids": np.arange(count, dtype=np.int32),
        "nodes_trueleafs": np.append(np.zeros(count - 1), 1).astype(np.uint8),
        "nodes_falseleafs": np.ones(count, np.uint8),
        "leaf_targetids": np.arange(count + 1, dtype=np.int32),
        "leaf_weights": np.ones(count + 1, np.float32),
        "tree_roots": np.zeros(1, np.int32),
    }
    x = np.array([[-1.0], [0.5], [777.0], [1e9]], np.float32)
    made = Model(graph(trees, 1, n_targets=count + 1), "cpu")
    assert made.run({"x": x})["y"].argmax(axis=1).tolist() == [0, 1, 777, count]


def put(name: str, place: int, value: Any) -> Callable[[dict[str, Array]], None]:
    def change(trees: dict[str, Array]) -> None:
        trees[name][place] = value

    return change


def set_to(name: str, value: Array) -> Callable[[dict[str, Array]], None]:
    def change(trees: dict[str, Array]) -> None:
        trees[name] = value

    return change


def inner(trees: dict[str, Array]) -> int:
    """Return a node with a node below its true branch."""
    return int(np.flatnonzero(trees["nodes_trueleafs"] == 0)[0])


def circle(trees: dict[str, Array]) -> None:
    trees["nodes_truenodeids"][inner(trees)] = inner(trees)


def shared(trees: dict[str, Array]) -> None:
    trees["nodes_truenodeids"][inner(trees)] = trees["tree_roots"][1]


WRONG: list[tuple[Callable[[dict[str, Array]], None], str]] = [
    (circle, "two parents, or a root has one"),
    (shared, "two parents, or a root has one"),
    (put("tree_roots", 0, 1 << 20), "tree_roots: expected 0 to"),
    (put("tree_roots", 0, -1), "tree_roots: expected 0 to"),
    (set_to("tree_roots", np.array([0, 0], np.int32)), "two parents, or a root has one"),
    (set_to("tree_roots", np.zeros(0, np.int32)), "expected tree_roots, got none"),
    (put("nodes_featureids", 1, 6), "nodes_featureids: expected 0 to 5, got 6"),
    (put("nodes_featureids", 1, -2), "nodes_featureids: expected 0 to 5, got -2"),
    (put("nodes_modes", 2, 7), "nodes_modes: expected 0 to 6, got 7"),
    (put("nodes_truenodeids", 0, 1 << 30), "nodes_truenodeids: expected 0 to"),
    (put("nodes_falsenodeids", 0, -(1 << 31)), "nodes_falsenodeids: expected 0 to"),
    (put("leaf_targetids", 0, 1), "leaf_targetids: expected 0 to 0, got 1"),
    (put("leaf_weights", 0, np.nan), "leaf_weights: 1 numbers a leaf, or no numbers"),
    (put("membership_values", -1, 1), "sets, each with NaN behind it"),
    (set_to("membership_values", np.array([1], np.float32)), "sets, each with NaN behind it"),
    (set_to("nodes_splits", np.zeros(3, np.float32)), "nodes_splits: expected float32"),
    (set_to("leaf_weights", np.zeros(3, np.float32)), "leaf_weights: expected float32"),
    (set_to("nodes_featureids", np.zeros(0, np.int32)), "expected nodes and leaves, got 0"),
    (set_to("nodes_modes", np.zeros(3, np.int64)), "nodes_modes: expected uint8"),
]


@pytest.mark.parametrize(
    ("change", "message"),
    WRONG,
    ids=[f"{i}-{message[:40]}" for i, (_, message) in enumerate(WRONG)],
)
def test_what_are_no_trees_is_refused_before_it_runs(
    change: Callable[[dict[str, Array]], None], message: str
) -> None:
    trees = forest(1 if "leaf_targetids" not in message else 0)
    change(trees)
    targets = 1 if "leaf_targetids" in message else 4
    made = graph(trees, n_targets=targets)
    for backend in BACKENDS:
        with pytest.raises(ShapeError, match=message):
            Model(made, backend).run({"x": np.zeros((2, 6), np.float32)})


def test_trees_are_constants() -> None:
    trees = forest(0)
    splits = trees.pop("nodes_splits")
    made = graph(trees)
    node = made.nodes[0]
    inputs = tuple(name or "nodes_splits" for name in node.inputs)
    opened = Graph(
        {**made.inputs, "nodes_splits": Type.of(splits)},
        made.outputs,
        (Node(node.op, inputs, node.outputs, node.attrs),),
        trees,
    )
    with pytest.raises(UnsupportedError, match="nodes_splits: expected a constant"):
        Model(opened, "cpu").run({"x": np.zeros((2, 6), np.float32), "nodes_splits": splits})


def test_in_a_model_file_with_a_plan(tmp_path: Path) -> None:
    made = graph(forest(0))
    x = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    wanted = Model(made, "reference").run({"x": x})["y"]
    for weights in ("auto", "smallest"):
        path = tmp_path / f"{weights}.palm"
        engine.save(made, path, weights, [{"x": (50, 6)}])
        model = engine.load(path)
        np.testing.assert_array_equal(model.run({"x": x})["y"], wanted)
        # Another size is planned when it comes.
        np.testing.assert_array_equal(model.run({"x": x[:7]})["y"], wanted[:7])
