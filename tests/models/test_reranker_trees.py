"""Trees as a re-ranker: in a model file, asked and personalised as networks are."""

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import load
from palmkit.engine.errors import ModelError, UnsupportedError
from palmkit.kits import Reranker, Schema
from palmkit.kits.cli import main
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.log import read_pages
from palmkit.kits.ranking.scorer import Description
from palmkit.models.reranker import dataset, recipe, simulator, trees

SCHEMA = Schema(categories=("brand",), price="price", context=("device",))
LAYOUT = Layout(SCHEMA)
WORDS = [{"a": 1, "b": 2, "c": 3}, {"mobile": 4, "tv": 5}]
Row = dict[str, Any]
# A split: a feature by its name and the threshold, or the codes of a category; then the weights of
# where that holds and where it does not.
Stump = tuple[str, float | Sequence[int], float, float]


def booster(stumps: Sequence[Stump], layout: Layout = LAYOUT) -> str:
    """Return what LightGBM's save_model would write of trees with one split each."""
    names = [name for name, _ in layout.features]
    names += [f"code of {name}" for name in (*layout.schema.categories, *layout.schema.context)]
    text = "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n"
    text += f"max_feature_idx={len(names) - 1}\nobjective=lambdarank\n"
    for number, (feature, split, left, right) in enumerate(stumps):
        is_set = isinstance(split, Sequence)
        text += f"\nTree={number}\nnum_leaves=2\nnum_cat={int(is_set)}\n"
        text += f"split_feature={names.index(feature)}\nsplit_gain=1\n"
        text += f"threshold={0 if is_set else split}\ndecision_type={1 if is_set else 2}\n"
        text += f"left_child=-1\nright_child=-2\nleaf_value={left} {right}\n"
        if isinstance(split, Sequence):
            text += f"cat_boundaries=0 1\ncat_threshold={sum(1 << code for code in split)}\n"
        text += "is_linear=0\nshrinkage=1\n\n"
    return text + "end of trees\n"


STUMPS: list[Stump] = [
    ("touches: order", 0.25, 0, 3),
    ("price: log", 3.0, 0.5, 0),
    ("code of brand", (2,), 1, 0),
    ("code of device", (4,), 0.25, 0),
]


def write(folder: Path, stumps: Sequence[Stump] = STUMPS, scale: float = 1.0) -> Path:
    path = folder / "trees.palm"
    described = Description("trees", "1", LAYOUT, WORDS)
    trees.export(booster(stumps), scale, described, path, {"kept": "the trees"})
    return path


def page(count: int = 12, start: int = 0) -> list[Row]:
    return [
        {"id": start + row, "brand": "abc"[row % 3], "price": 5.0 + 7 * (row * 5 % 11)}
        for row in range(count)
    ]


def click(item: Any, time: float = 1.0) -> Row:
    return {"event": "click", "id": item, "time": time}


def wanted_score(item: Row, is_touched: bool, is_mobile: bool = False) -> float:
    is_cheap = bool(np.log1p(np.float32(item["price"])) <= 3)
    return 3 * is_touched + 0.5 * is_cheap + bool(item["brand"] == "b") + 0.25 * is_mobile


@pytest.mark.parametrize("count", [1, 8, 12, 50, 1500])
def test_pages_are_ordered_by_the_trees(tmp_path: Path, count: int) -> None:
    kit = Reranker(write(tmp_path, scale=0.5))
    assert kit.schema == SCHEMA
    items = page(count)
    for context in ({"device": "mobile"}, {"device": "never seen"}, None):
        found = kit.rerank(items, [click(items[-1]["id"])], context)
        assert sorted(found.ids) == [*range(count)]
        for id, score in zip(found.ids, found.scores.tolist(), strict=True):
            is_mobile = context == {"device": "mobile"}
            assert score == 0.5 * wanted_score(items[id], id == count - 1, is_mobile)
        assert (np.diff(found.scores) <= 0).all()


def test_a_session_gives_what_the_whole_history_gives(tmp_path: Path) -> None:
    kit = Reranker(write(tmp_path))
    session = kit.session()
    assert session.rerank(page()).cold
    session.observe(click(5))
    session.observe(click(3, 2.0))
    found, expected = session.rerank(page()), kit.rerank(page(), [click(5), click(3, 2.0)])
    assert found.ids == expected.ids and set(found.ids[:2]) == {3, 5}
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_why_says_what_trees_owe_to_what(tmp_path: Path) -> None:
    found = Reranker(write(tmp_path)).rerank(page(), [click(3)], why=True)
    assert found.why is not None
    first = found.why[found.ids.index(3)]
    assert next(iter(first)) == "touches"
    # Trees do not see the events by themselves.
    assert all("sequence" not in reasons for reasons in found.why)


def seen(session: Any, rows: int) -> None:
    """Show pages to a user who wants nothing but brand c, which the trees know nothing of."""
    for number in range(rows):
        items = page(9, 100 * number)
        session.rerank(items)
        events = [
            {"event": "click" if item["brand"] == "c" else "exposure", "id": item["id"]}
            for item in items
        ]
        session.observe([{**event, "time": float(number)} for event in events])


def brands(session: Any) -> list[str]:
    items = page(9, 9000)
    return [items[id - 9000]["brand"] for id in session.rerank(items).ids[:3]]


def test_a_taste_is_learned_and_kept(tmp_path: Path) -> None:
    kit = Reranker(write(tmp_path))
    session = kit.session(learns=True)
    seen(session, 40)
    assert brands(session) != ["c", "c", "c"]
    said = session.learn(60.0)
    assert said.kept and said.ndcg10 is not None and said.ndcg10[1] > said.ndcg10[0]
    assert brands(session) == ["c", "c", "c"]
    found = session.rerank(page(9, 9000), why=True)
    assert found.why is not None and "taste" in found.why[0]
    session.save(tmp_path / "me")
    again = kit.session(learns=True)
    again.rerank(page())
    again.load(tmp_path / "me")
    again.observe(click(1))
    assert brands(again) == ["c", "c", "c"]
    assert session.undo() and brands(session) != ["c", "c", "c"]


def test_a_taste_never_meets_other_trees(tmp_path: Path) -> None:
    session = Reranker(write(tmp_path)).session(learns=True)
    seen(session, 14)
    session.save(tmp_path / "me")
    (tmp_path / "other").mkdir()
    others: list[Stump] = [("touches: order", 0.25, 0, 2), *STUMPS[1:]]
    other = Reranker(write(tmp_path / "other", others)).session(learns=True)
    with pytest.raises(ModelError, match="expected that of this model and schema"):
        other.load(tmp_path / "me")


def test_the_file_needs_nothing_of_what_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path)
    for package in ("lightgbm", "torch", "onnx"):
        monkeypatch.setitem(sys.modules, package, None)
    model = load(path)
    assert not model.fallbacks and model.metadata["kept"] == "the trees"
    assert Reranker(path).rerank(page(), [click(3)]).ids[0] == 3
    assert path.stat().st_size < 4000


def test_trees_of_another_layout_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"trees: expected \d+ features, got \d+"):
        described = Description("trees", "1", Layout(SCHEMA, "any"), WORDS)
        trees.export(booster(STUMPS), 1.0, described, tmp_path / "t.palm", {})
    assert not (tmp_path / "t.palm").exists()


def test_scores_are_scaled_to_log_odds() -> None:
    """Choices made with the softmax of scores / 3: what makes log-odds of the scores is 1/3."""
    random = np.random.default_rng(0)
    scores = [
        random.normal(0, 4, int(random.integers(2, 30))).astype(np.float32) for _ in range(4000)
    ]
    labels: list[Any] = []
    for each in scores:
        shares = np.exp(each.astype(np.float64) / 3)
        chosen = random.choice(len(each), p=shares / shares.sum())
        labels.append((np.arange(len(each)) == chosen).astype(np.float32))
    # A standard error of some 0.005.
    assert trees.fitting_scale(scores, labels) == pytest.approx(1 / 3, abs=0.02)
    # What says nothing is made small; without bounds it would be 0.
    assert trees.fitting_scale(scores, [np.roll(each, 1) for each in labels]) < 0.1


def test_the_better_model_is_kept() -> None:
    both = {recipe.NETWORK: 0.5, recipe.TREES: 0.6}
    assert recipe.choose(both, "better").name == recipe.TREES
    assert recipe.choose({**both, recipe.NETWORK: 0.7}, "better").name == recipe.NETWORK
    assert recipe.choose({**both, recipe.NETWORK: 0.6}, "better").name == recipe.NETWORK
    assert recipe.choose(both, "network").name == recipe.NETWORK
    assert recipe.choose({recipe.NETWORK: 0.1}, "better").name == recipe.NETWORK
    said = str(recipe.choose(both, "better"))
    assert said == (
        "LightGBM, LambdaMART (NDCG@10 on the held-out pages: the network 0.5000; "
        "LightGBM, LambdaMART 0.6000)"
    )


def test_what_is_missing_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"time": 1, "items": [{"id": 1}], "chosen": [1]}\n')
    monkeypatch.setattr(recipe, "find_spec", lambda name: None)
    command = ["rerank", "train", str(log), "-o", str(tmp_path / "m.palm"), "-q"]
    assert main(command) == 1
    assert 'training needs torch: pip install "palmkit[train]", or use' in capsys.readouterr().err
    assert main([*command, "--keep", "trees"]) == 1
    assert 'needs lightgbm: pip install "palmkit[rerank]"' in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--keep", "trees", "--no-trees"])
    assert "--no-trees: expected without --keep trees" in capsys.readouterr().err


def test_trees_alone_are_trained_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("lightgbm", reason="lightgbm is in the extra rerank")
    for name in ("torch", *(m for m in sys.modules if m.startswith("palmkit.models.reranker."))):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    rows = list(simulator.simulate(80, 5))
    log, model = tmp_path / "log.jsonl", tmp_path / "m.palm"
    log.write_text("\n".join(map(json.dumps, rows)))
    simulator.SCHEMA.save(tmp_path / "schema.json")
    command = ["rerank", "train", str(log), "--schema", str(tmp_path / "schema.json"), "-q"]
    command += ["-o", str(model), "--report", str(tmp_path / "report.html"), "--keep", "trees"]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["kept"]["model"] == recipe.TREES and recipe.NETWORK not in said
    assert 0 < said["kept"]["held_out_ndcg10"][recipe.TREES] <= 1
    assert "NDCG@10 on the held-out pages" in (tmp_path / "report.html").read_text()
    assert load(model).metadata["kept"].startswith(recipe.TREES)
    shown = list(read_pages(rows, simulator.SCHEMA))[-1]
    found = Reranker(model).rerank(shown.items, shown.history, shown.context)
    assert sorted(found.rows.tolist()) == [*range(len(shown.items))]


@pytest.mark.parametrize("scope", ["any", "own"])
def test_the_file_gives_what_lightgbm_gives(tmp_path: Path, scope: Any) -> None:
    pytest.importorskip("lightgbm", reason="lightgbm is in the extra rerank")
    from palmkit.kits.kit import open_model
    from palmkit.kits.ranking.scorer import Scorer

    rows = list(simulator.simulate(60, 5))
    layout = Layout(simulator.SCHEMA, scope, length=20)
    words = dataset.learn_vocabulary(rows, layout.schema) if scope == "own" else [{}] * 3
    lists = dataset.write_lists(tmp_path / "lists", rows, layout, words)
    every = np.arange(len(lists))
    made = trees.Trees(lists, every[:-40], every[-40:], 0)
    described = Description("trees", "1", layout, words if scope == "own" else [])
    trees.export(made.text, made.scale, described, tmp_path / "t.palm", {})
    scorer = Scorer(open_model(tmp_path / "t.palm", 1, "high"))
    assert not scorer.sees_events
    for example, expected in zip(lists, made.score(lists, every), strict=True):
        # The lists on disk have narrower codes.
        codes = example.inputs.item_codes.astype(np.int64)
        found = scorer.score(replace(example.inputs, item_codes=codes), layout.length)
        # Weights are rounded to float32, and their sum once.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_an_old_model_of_trees_says_that_it_cannot_learn(tmp_path: Path) -> None:
    """One without the output hidden, as of networks."""
    from palmkit.engine import convert, save

    graph = convert(write(tmp_path))
    outputs = {"scores": graph.outputs["scores"]}
    save(replace(graph, outputs=outputs), tmp_path / "plain.palm")
    kit = Reranker(tmp_path / "plain.palm")
    assert kit.rerank(page(), [click(3)]).ids[0] == 3
    with pytest.raises(UnsupportedError, match="the model has no output hidden"):
        kit.session(learns=True)
