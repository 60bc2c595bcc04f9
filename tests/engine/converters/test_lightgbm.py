"""LightGBM's text format, against what LightGBM predicted: data/lightgbm/make_models.py."""

import io
import lzma
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.converters.lightgbm import convert
from palmkit.engine.converters.lightgbm.model import read
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.engine.ir import Array
from palmkit.engine.model import Model

DATA = Path(__file__).parent / "data" / "lightgbm" / "models.npz.xz"


@cache
def models() -> dict[str, dict[str, Array]]:
    """Return text, features and predictions of each model."""
    found: dict[str, dict[str, Array]] = {}
    with np.load(io.BytesIO(lzma.decompress(DATA.read_bytes()))) as arrays:
        for key in arrays.files:
            name, _, part = key.partition("/")
            found.setdefault(name, {})[part] = arrays[key]
    return found


def text(name: str) -> str:
    return models()[name]["text"].tobytes().decode()


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", models())
def test_predictions_are_those_of_lightgbm(name: str, backend: str) -> None:
    """To rounding: weights are float32, and their sum and what follows is rounded once each."""
    model = models()[name]
    found = Model(convert(model["text"].tobytes()), backend).run({"features": model["x"]})
    assert found["predictions"].shape == model["y"].shape
    np.testing.assert_allclose(found["predictions"], model["y"], rtol=1e-6, atol=1e-6)


def test_a_model_is_known_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "booster.txt"
    path.write_text(text("codes"))
    model = engine.load(path)
    assert list(model.inputs) == ["features"] and not model.fallbacks
    engine.save(engine.convert(path), tmp_path / "booster.palm", shapes=[{"features": (50, 6)}])
    x = models()["codes"]["x"][:50]
    found = engine.load(tmp_path / "booster.palm").run({"features": x})
    np.testing.assert_array_equal(found["predictions"], model.run({"features": x})["predictions"])
    path.write_text(text("codes").replace("\n", "\r\n"))
    assert engine.load(path).metadata["objective"] == "regression"
    path.write_text("tree of life")
    with pytest.raises(ModelError, match="expected a model"):
        engine.load(path)


def test_thresholds_keep_every_float32_on_its_side() -> None:
    """Beside the nearest float32, which is above the threshold half of the time."""
    changed = text("regression")
    line = next(each for each in changed.splitlines() if each.startswith("threshold="))
    count = len(line.split())
    near = np.array([0.1, 0.7, 1e300, -1e300, 3.5, 1e-40, -1e-40][:count], np.float64)
    near = np.resize(near, count)
    changed = changed.replace(line, "threshold=" + " ".join(f"{each:.17g}" for each in near), 1)
    splits = read(changed).trees.splits[:count].astype(np.float64)
    assert (splits[near > 1e-35] <= near[near > 1e-35]).all()
    with np.errstate(over="ignore"):
        above = np.nextafter(splits.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    assert (above[near > 1e-35] > near[near > 1e-35]).all()
    # What lies so near to zero is zero.
    assert (splits[near == 1e-40] == np.float32(1e-35)).all()
    assert (splits[near == -1e-40] < -np.float32(1e-35)).all()


def test_weights_may_be_scaled() -> None:
    plain, twice = read(text("ranking")).trees, read(text("ranking"), 2.0).trees
    np.testing.assert_array_equal(twice.weights, 2 * plain.weights)


def changed(old: str, new: str, name: str = "codes") -> str:
    assert old in text(name), old
    return text(name).replace(old, new, 1)


def line(start: str, name: str = "codes") -> str:
    return next(each for each in text(name).splitlines() if each.startswith(start))


def test_damaged_texts_are_refused() -> None:
    left, right = line("left_child="), line("right_child=")
    features, kinds = line("split_feature="), line("decision_type=")
    wrong = {
        "expected a text that begins": changed("tree\n", "three\n"),
        "max_feature_idx: expected an integer": changed("max_feature_idx=5\n", ""),
        "trees of 6 features, 0 a round": changed(
            "num_tree_per_iteration=1", "num_tree_per_iteration=0"
        ),
        "9 trees of 6 features, 2 a round": changed(
            "num_tree_per_iteration=1", "num_tree_per_iteration=2"
        ),
        "0 trees": text("codes").split("Tree=0")[0],
        "leaf_value: expected 9, got 8": changed("num_leaves=8", "num_leaves=9"),
        "num_leaves: expected an integer": changed("num_leaves=8", "num_leaves=many"),
        "split_feature: expected 7, got 0": changed(features + "\n", ""),
        "split_feature: expected 0 to 5": changed(features, "split_feature=" + "6 " * 7),
        "two parents": changed(left, "left_child=" + "1 " * 7),
        "the number of a node is not one|expected 0 to": changed(
            right, "right_child=" + "99999 " * 7
        ),
        "a set of categories is not there": changed(line("threshold="), "threshold=" + "1000 " * 7),
        "no sets of categories": changed("num_cat=1", "num_cat=0"),
        "in some nodes and not in others": changed(kinds, "decision_type=" + "1 " * 6 + "2"),
        "damaged LightGBM model": changed(line("leaf_value="), "leaf_value=" + "a " * 8),
    }
    for message, each in wrong.items():
        with pytest.raises(ModelError, match=message):
            convert(each.encode())


def test_what_is_not_supported() -> None:
    for message, each in {
        "linear models in leaves": changed("is_linear=0", "is_linear=1"),
        "objective 'cross_entropy_lambda'": changed(
            "objective=regression", "objective=cross_entropy_lambda"
        ),
    }.items():
        with pytest.raises(UnsupportedError, match=message):
            convert(each.encode())


def test_a_circle_of_nodes_ends_in_an_error() -> None:
    left = line("left_child=")
    count = len(left.split())
    with pytest.raises(ModelError, match="two parents"):
        convert(changed(left, "left_child=" + "0 " * count).encode())
