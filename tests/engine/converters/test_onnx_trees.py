"""ONNX-ML's decision trees, against ONNX Runtime."""

from typing import Any

import numpy as np
import pytest

from palmkit.engine.converters.onnx import convert
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model
from palmkit.engine.ops import find
from palmkit.engine.ops.tree_ensemble import Mode

onnx: Any = pytest.importorskip("onnx")

FEATURES = 6
# Sums are of float32 in ONNX Runtime, and here rounded once.
TOLERANCE = 1e-5


def model(op: str, outputs: dict[str, int], dtype: Any = 1, **attrs: Any) -> Any:
    node = onnx.helper.make_node(op, ["x"], list(outputs), domain="ai.onnx.ml", **attrs)
    x = onnx.helper.make_tensor_value_info("x", dtype, ["rows", FEATURES])
    told = [
        onnx.helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()
    ]
    opset = 5 if op == "TreeEnsemble" else 3
    return onnx.helper.make_model(
        onnx.helper.make_graph([node], "trees", [x], told),
        opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", opset)],
        ir_version=10,
    )


def rows(count: int = 60, dtype: str = "float32", missing: float = 0.1) -> Array:
    random = np.random.default_rng(count)
    x = random.integers(-5, 6, (count, FEATURES)) / 2
    return np.where(random.random(x.shape) < missing, np.nan, x).astype(dtype)


def compare(made: Any, x: Array) -> list[Array]:
    """Check both backends against ONNX Runtime, and return what that one gave."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    session = runtime.InferenceSession(made.SerializeToString())
    wanted: list[Array] = session.run(None, {"x": x})
    graph = convert(made.SerializeToString())
    for backend in ("reference", "cpu"):
        found = Model(graph, backend).run({"x": x})
        for peer, y in zip(wanted, found.values(), strict=True):
            assert (y.dtype, y.shape) == (peer.dtype, peer.shape)
            if y.dtype.kind == "f":
                np.testing.assert_allclose(y, peer, atol=TOLERANCE, rtol=TOLERANCE)
            else:
                np.testing.assert_array_equal(y, peer)
    return wanted


def forest(number: int) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the trees of one of the op's own cases, by name."""
    case = find("tree_ensemble").cases[number]
    names = [
        *("nodes_featureids", "nodes_modes", "nodes_splits", "nodes_truenodeids"),
        *("nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs", "leaf_targetids"),
        *("leaf_weights", "tree_roots", "nodes_missing_value_tracks_true", "membership_values"),
    ]
    found = {n: x for n, x in zip(names, case.inputs[1:], strict=True) if isinstance(x, np.ndarray)}
    return found, {"n_targets": 1, **case.attrs}


def newest(number: int, members: bool = True, **more: Any) -> Any:
    trees, attrs = forest(number)
    if not members:
        # ONNX Runtime takes the sets of a tree in another order than the standard says.
        is_set = trees["nodes_modes"] == Mode.MEMBER
        trees["nodes_modes"] = np.where(is_set, Mode.LEQ, trees["nodes_modes"]).astype(np.uint8)
        del trees["membership_values"]
    tensors = ("nodes_modes", "nodes_splits", "leaf_weights", "membership_values")
    given: dict[str, Any] = {
        name: onnx.numpy_helper.from_array(value) if name in tensors else value.tolist()
        for name, value in trees.items()
    }
    element = onnx.helper.np_dtype_to_tensor_dtype(trees["nodes_splits"].dtype)
    return model("TreeEnsemble", {"y": element}, element, **given, **attrs, **more)


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 9])
def test_the_newest_operator(number: int) -> None:
    dtype = "float64" if number == 9 else "float32"
    compare(newest(number, members=False), rows(dtype=dtype))


@pytest.mark.parametrize(("transform", "op"), [(1, "softmax"), (2, "sigmoid")])
def test_transforms_of_the_newest_operator(transform: int, op: str) -> None:
    """Their numbers are the standard's; ONNX Runtime 1.32 has them the other way round."""
    plain, found = (
        convert(newest(3, members=False, post_transform=each).SerializeToString())
        for each in (0, transform)
    )
    scores = Model(plain, "cpu").run({"x": rows()})["y"]
    wanted = find(op).reference(scores, **({"axis": -1} if op == "softmax" else {}))
    np.testing.assert_allclose(Model(found, "cpu").run({"x": rows()})["y"], wanted, rtol=1e-6)


def test_sets_stand_in_the_order_of_their_nodes() -> None:
    """Trees give what the evaluator of ONNX gives where nodes stand in the order of the trees."""
    modes = [Mode.MEMBER, Mode.LEQ, Mode.MEMBER]
    attrs: dict[str, Any] = {
        "nodes_featureids": [0, 1, 2],
        "nodes_modes": onnx.numpy_helper.from_array(np.array(modes, np.uint8)),
        "nodes_splits": onnx.numpy_helper.from_array(np.array([9, 0.5, 9], np.float32)),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 0, 0, 0],
        "leaf_weights": onnx.numpy_helper.from_array(np.array([1, 2, 4, 8], np.float32)),
        "membership_values": onnx.numpy_helper.from_array(
            np.array([1, 2.5, -1, np.nan, 2, np.nan], np.float32)
        ),
        "tree_roots": [0],
        "n_targets": 1,
    }
    made = model("TreeEnsemble", {"y": 1}, **attrs)
    x = rows()
    reference: Any = pytest.importorskip("onnx.reference")
    (wanted,) = reference.ReferenceEvaluator(made).run(None, {"x": x})
    found = Model(convert(made.SerializeToString()), "cpu").run({"x": x})["y"]
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(found)) == 4


def old_trees(
    seed: int, votes: str, targets: int, trees: int = 7, each: int = 1, modes: Any = ()
) -> dict[str, Any]:
    """Return random trees with leaves among the nodes, each with the votes of so many targets."""
    random = np.random.default_rng(seed)
    found: dict[str, list[Any]] = {
        f"nodes_{name}": []
        for name in (
            *("treeids", "nodeids", "featureids", "modes", "values", "truenodeids"),
            *("falsenodeids", "missing_value_tracks_true"),
        )
    }
    votes_of: dict[str, list[Any]] = {
        f"{votes}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")
    }
    for tree in range(trees):
        inner = int(random.integers(1, 6)) if tree else 0
        children: list[tuple[int, int]] = []
        free = [0]
        count = 1
        for _ in range(inner):
            at = free.pop(int(random.integers(len(free))))
            while len(children) < count:
                children.append((-1, -1))
            children[at] = (count, count + 1)
            free += [count, count + 1]
            count += 2
        children += [(-1, -1)] * (count - len(children))
        for number, (true, false) in enumerate(children):
            is_leaf = true < 0
            mode = "LEAF" if is_leaf else f"BRANCH_{random.choice(modes or ['LEQ'])}"
            values = {
                "treeids": tree,
                "nodeids": number,
                "featureids": 0 if is_leaf else int(random.integers(FEATURES)),
                "modes": mode,
                "values": 0.0 if is_leaf else float(random.integers(-4, 5)) / 2,
                "truenodeids": max(true, 0),
                "falsenodeids": max(false, 0),
                "missing_value_tracks_true": int(random.integers(2)),
            }
            for name, value in values.items():
                found[f"nodes_{name}"].append(value)
            if is_leaf:
                for target in random.permutation(targets)[:each].tolist():
                    votes_of[f"{votes}_treeids"].append(tree)
                    votes_of[f"{votes}_nodeids"].append(number)
                    votes_of[f"{votes}_ids"].append(target)
                    votes_of[f"{votes}_weights"].append(float(random.standard_normal()))
    return {**found, **votes_of}


BRANCHES = [mode.name for mode in Mode if mode is not Mode.MEMBER]


@pytest.mark.parametrize("mode", BRANCHES)
def test_each_mode_of_the_regressor(mode: str) -> None:
    trees = old_trees(1, "target", 1, modes=[mode])
    compare(model("TreeEnsembleRegressor", {"y": 1}, n_targets=1, **trees), rows())


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates_of_regressors(aggregate: str) -> None:
    for base in ({}, {"base_values": [0.5]}):
        trees = old_trees(2, "target", 1)
        attrs: dict[str, Any] = {"n_targets": 1, "aggregate_function": aggregate, **base, **trees}
        compare(model("TreeEnsembleRegressor", {"y": 1}, **attrs), rows())
    trees = old_trees(2, "target", 3)
    attrs = {"n_targets": 3, "aggregate_function": aggregate, **trees}
    compare(model("TreeEnsembleRegressor", {"y": 1}, **attrs), rows())


def test_leaves_of_several_votes() -> None:
    for each in (2, 3):
        attrs: dict[str, Any] = {
            "n_targets": 3,
            **old_trees(3, "target", 3, each=each, modes=BRANCHES),
        }
        compare(model("TreeEnsembleRegressor", {"y": 1}, **attrs), rows())
    attrs["base_values"] = [0.5, -1.0, 2.0]
    compare(model("TreeEnsembleRegressor", {"y": 1}, **attrs), rows())


def test_features_of_other_types() -> None:
    trees: dict[str, Any] = {**old_trees(4, "target", 1, modes=BRANCHES), "n_targets": 1}
    # ONNX Runtime has none for integers.
    whole = np.round(rows(missing=0))
    made = model("TreeEnsembleRegressor", {"y": 1}, 7, **trees)
    (wanted,) = compare(model("TreeEnsembleRegressor", {"y": 1}, **trees), whole)
    for backend in ("reference", "cpu"):
        found = Model(convert(made.SerializeToString()), backend).run({"x": whole.astype(np.int64)})
        np.testing.assert_allclose(found["y"], wanted, rtol=TOLERANCE, atol=TOLERANCE)
    # Splits of float64, that float32 does not have.
    values = np.array(trees.pop("nodes_values")) + 1e-12
    weights = np.array(trees.pop("target_weights"))
    made = model(
        "TreeEnsembleRegressor",
        {"y": 1},
        11,
        nodes_values_as_tensor=onnx.numpy_helper.from_array(values),
        target_weights_as_tensor=onnx.numpy_helper.from_array(weights),
        **trees,
    )
    compare(made, rows(dtype="float64"))


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("base", [(), (0.5, -1.0, 2.0)])
def test_classifiers(transform: str, each: int, base: tuple[float, ...]) -> None:
    trees = old_trees(5, "class", 3, each=each)
    if each == 1:
        # As boosters do it: all leaves of a tree vote for one class, and each class has a tree.
        trees["class_ids"] = [tree % 3 for tree in trees["class_treeids"]]
    made = model(
        "TreeEnsembleClassifier",
        {"label": 7, "scores": 1},
        classlabels_int64s=[10, 20, 5],
        post_transform=transform,
        **trees,
        **({"base_values": base} if base else {}),
    )
    labels, _ = compare(made, rows())
    assert len(np.unique(labels)) > 1


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("are_chances", [False, True])
@pytest.mark.parametrize("base", [(), (0.25,)])
def test_classifiers_of_two_classes_of_which_the_first_has_the_votes(
    transform: str, are_chances: bool, base: tuple[float, ...]
) -> None:
    trees = old_trees(6, "class", 1)
    if are_chances:
        weights = np.abs(trees["class_weights"])
        trees["class_weights"] = (weights / weights.sum()).tolist()
    made = model(
        "TreeEnsembleClassifier",
        {"label": 7, "scores": 1},
        classlabels_int64s=[3, 4],
        post_transform=transform,
        **trees,
        **({"base_values": base} if base else {}),
    )
    compare(made, rows())


def test_classifiers_of_two_classes_that_both_have_votes() -> None:
    """ONNX Runtime 1.32 says 1 or 0 there, whatever the labels are."""
    runtime = pytest.importorskip("onnxruntime")
    labels = {"classlabels_int64s": [3, 4]}
    trees = old_trees(7, "class", 2, each=2)
    made = model("TreeEnsembleClassifier", {"label": 7, "scores": 1}, **labels, **trees)
    scores: Array
    _, scores = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": rows()})
    found = Model(convert(made.SerializeToString()), "cpu").run({"x": rows()})
    np.testing.assert_allclose(found["scores"], scores, rtol=TOLERANCE, atol=TOLERANCE)
    np.testing.assert_array_equal(found["label"], 3 + scores.argmax(axis=1))


def samples() -> dict[str, Any]:
    """Return a model of each operator, for the fuzzer."""
    regressor: dict[str, Any] = {
        "n_targets": 3,
        **old_trees(3, "target", 3, each=2, modes=BRANCHES),
    }
    classifier: dict[str, Any] = {"classlabels_int64s": [1, 2], **old_trees(6, "class", 1)}
    return {
        "newest": newest(4),
        "regressor": model("TreeEnsembleRegressor", {"y": 1}, **regressor),
        "classifier": model("TreeEnsembleClassifier", {"label": 7, "scores": 1}, **classifier),
    }


def with_nodes(**changes: Any) -> Any:
    """Return a regressor of which some nodes are damaged: list to (place, value)."""
    trees: dict[str, Any] = {**old_trees(8, "target", 2), "n_targets": 2}
    for name, (place, value) in changes.items():
        trees[name][place] = value
    return model("TreeEnsembleRegressor", {"y": 1}, **trees)


OLD_WRONG: list[tuple[dict[str, tuple[int, Any]], str]] = [
    ({"nodes_truenodeids": (1, 99)}, "nodes_truenodeids: a node is not there"),
    ({"nodes_falsenodeids": (1, 0)}, "the first node of a tree has a parent"),
    ({"nodes_nodeids": (2, 0)}, "nodes_nodeids: one is there twice"),
    ({"nodes_modes": (1, "BRANCH_NO")}, "nodes_modes: there is another"),
    ({"nodes_featureids": (1, -1)}, "the number of a feature is not one"),
    ({"nodes_featureids": (1, 1 << 20)}, "nodes_featureids: expected 0 to 1048575, got 1048576"),
    ({"target_ids": (0, 2)}, "target_ids: expected 0 to 1"),
    ({"target_nodeids": (0, 77)}, "target_nodeids: a node is not there"),
]


@pytest.mark.parametrize(("changes", "message"), OLD_WRONG, ids=lambda x: str(x)[:40])
def test_damaged_trees_of_the_older_operators(
    changes: dict[str, tuple[int, Any]], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        convert(with_nodes(**changes).SerializeToString())


def test_lists_of_other_lengths() -> None:
    trees: dict[str, Any] = {**old_trees(8, "target", 1), "n_targets": 1}
    for name in ("nodes_values", "nodes_modes", "target_ids", "target_weights"):
        short: dict[str, Any] = {**trees, name: trees[name][:-1]}
        with pytest.raises(ModelError, match="expected lists of one length"):
            convert(model("TreeEnsembleRegressor", {"y": 1}, **short).SerializeToString())
    with pytest.raises(ModelError, match="expected lists of one length"):
        convert(model("TreeEnsembleRegressor", {"y": 1}).SerializeToString())


def test_what_is_not_supported() -> None:
    trees: dict[str, Any] = {**old_trees(8, "target", 2, each=2), "n_targets": 2}
    for attrs, message in (
        ({"post_transform": "PROBIT"}, "post_transform PROBIT"),
        ({"aggregate_function": "MIN"}, "MIN of leaves without one vote each"),
        ({"base_values": [1.0]}, "one base value for several targets"),
        ({"n_targets": 1 << 40, "target_ids": [0, (1 << 40) - 1] * 99}, "few of many targets"),
    ):
        given: dict[str, Any] = {**trees, **attrs}
        given["target_ids"] = given["target_ids"][: len(trees["target_ids"])]
        with pytest.raises(UnsupportedError, match=message):
            convert(model("TreeEnsembleRegressor", {"y": 1}, **given).SerializeToString())
    classes = old_trees(8, "class", 2, each=2)
    texts = model(
        "TreeEnsembleClassifier",
        {"label": 8, "scores": 1},
        classlabels_strings=["a", "b"],
        **classes,
    )
    with pytest.raises(UnsupportedError, match="a class with text for a label"):
        convert(texts.SerializeToString())
