import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine.errors import TableError
from palmkit.kits.cli import main
from palmkit.kits.ranking.features import Layout
from palmkit.kits.ranking.log import read_pages
from palmkit.kits.ranking.schema import Schema
from palmkit.models.reranker import dataset, measures, offpolicy, simulator, trivago

MODELS = Path(__file__).parents[2] / "models"
DATA = Path(__file__).parents[3] / "shared/data/rank"


def log(visits: int, seed: int = 5) -> list[dict[str, Any]]:
    return list(simulator.simulate(visits, seed))


def test_measures_against_numbers_by_hand() -> None:
    labels = np.array([0, 0, 1, 1], np.float32)
    scores = np.array([4.0, 3, 2, 1])
    assert measures.reciprocal_rank(scores, labels) == pytest.approx(1 / 3)
    ideal = 1 + 1 / np.log2(3)
    assert measures.ndcg(scores, labels) == pytest.approx((0.5 + 1 / np.log2(5)) / ideal)
    assert measures.ndcg(scores, labels, 2) == 0
    # Equal scores keep the order of the page, unless it is shuffled.
    assert measures.reciprocal_rank(np.zeros(4), labels) == pytest.approx(1 / 3)
    pages = [np.zeros(4)] * 4000, [labels] * 4000
    by_chance = measures.measure(*measures.shuffled(*pages, seed=0))["mrr"]
    # First of two in four at random: 1/2, 1/3, 1/6 of the time at 1, 2, 3.
    assert by_chance == pytest.approx(1 / 2 + 1 / 6 + 1 / 18, abs=0.02)


def test_the_simulator_repeats_and_its_log_is_in_order() -> None:
    rows = log(6)
    assert rows == log(6) and rows != log(6, 6)
    pages = list(read_pages(rows, simulator.SCHEMA))
    assert len(pages) == sum("items" in row for row in rows)
    for page in pages:
        assert all(event["time"] <= page.time for event in page.history)


def test_users_of_the_simulator_click_what_is_worth_more() -> None:
    random = np.random.default_rng(0)
    shop = simulator.Catalogue.drawn(random)
    chosen, left = [], []
    for _ in range(40):
        visit = simulator.Visit(shop, random, 0.0)
        items, rows = visit.page()
        worth = dict(zip((row["id"] for row in rows), visit.worth(items), strict=True))
        clicked, events = visit.look(items, list(worth))
        chosen += [worth[name] for name in clicked]
        left += [worth[e["id"]] for e in events if e["event"] in ("exposure", "skip")]
    assert np.mean(chosen) > np.mean(left) + 0.5


def test_lists_on_disk_are_what_was_encoded(tmp_path: Path) -> None:
    rows = log(5)
    vocabulary = dataset.learn_vocabulary(rows, simulator.SCHEMA)
    codes = [code for words in vocabulary for code in words.values()]
    assert sorted(codes) == list(range(1, 1 + len(codes)))
    layout = Layout(simulator.SCHEMA, "own")
    lists = dataset.write_lists(tmp_path, rows, layout, vocabulary)
    pages = [page for page in read_pages(rows, simulator.SCHEMA) if any(page.labels)]
    assert len(lists) == len(pages)
    for page, found in zip(pages, lists, strict=True):
        expected = dataset.encode(page, layout, vocabulary)
        assert found.inputs.items.shape[1] == len(layout.features)
        assert found.inputs.events.shape[1] == len(layout.traits)
        assert len(found.inputs.links) == len(layout.links)
        np.testing.assert_array_equal(found.inputs.items, expected.inputs.items)
        np.testing.assert_array_equal(found.inputs.event_codes, expected.inputs.event_codes)
        # float16 has 11 bits.
        np.testing.assert_allclose(found.inputs.links, expected.inputs.links, rtol=5e-4, atol=1e-6)
        np.testing.assert_array_equal(found.labels, expected.labels)
    with pytest.raises(TableError, match="expected pages of which something was chosen"):
        dataset.write_lists(tmp_path / "none", [], layout, vocabulary)


def test_a_features_future_is_never_seen() -> None:
    """What comes after a page changes nothing of what the network sees of it."""
    rows = log(4)
    layout = Layout(simulator.SCHEMA, "any")
    words: list[dict[str, int]] = [{}] * 3
    whole = list(read_pages(rows, simulator.SCHEMA))
    cut = whole[len(whole) // 2].number
    part = list(read_pages(rows[: cut + 1], simulator.SCHEMA))
    for page, same in zip(whole, part, strict=False):
        before = dataset.encode(page, layout, words).inputs
        after = dataset.encode(same, layout, words).inputs
        np.testing.assert_array_equal(before.items, after.items)
        np.testing.assert_array_equal(before.links, after.links)


def test_server_order_is_not_seen_without_position() -> None:
    rows = log(4)
    layout = Layout(simulator.SCHEMA, "any", with_position=False)
    for page in read_pages(rows, simulator.SCHEMA):
        shown = dataset.encode(page, layout, [{}] * 3).inputs.items
        page.items.reverse()
        page.labels.reverse()
        again = dataset.encode(page, layout, [{}] * 3).inputs.items[::-1]
        # Sums over the page in another order.
        np.testing.assert_allclose(shown, again, atol=1e-4)


def feedback(count: int, seed: int) -> tuple[offpolicy.Feedback, Any, Any]:
    """A log of a policy that explored, and what the policy under test truly earns."""
    random = np.random.default_rng(seed)
    rates = np.array([[0.1, 0.3, 0.5], [0.05, 0.1, 0.2]])
    logging = np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]])
    policy = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
    places = random.integers(2, size=count)
    items = np.array([random.choice(3, p=logging[place]) for place in places])
    rewards = (random.random(count) < rates[places, items]).astype(float)
    rows = [
        {"item": str(item), "position": int(place), "click": reward, "p": logging[place, item]}
        for item, place, reward in zip(items, places, rewards, strict=True)
    ]
    schema = Schema(id="item", position="position", label="click", propensity="p")
    found = offpolicy.read_feedback(rows, schema, ("0", "1", "2"), (0, 1))
    return found, policy, float((policy * rates).sum(axis=1).mean())


def test_the_estimates_find_what_a_policy_earns() -> None:
    found, policy, truth = feedback(20_000, 0)
    said = offpolicy.evaluate(found, policy)
    for name in ("ips", "snips", "dr"):
        estimate = said[name]
        assert estimate.low < truth < estimate.high
        assert estimate.value == pytest.approx(truth, abs=0.02)
    assert abs(said["logged"].value - truth) > 0.05
    # The policy that logged is known exactly: all weights are one.
    own = offpolicy.evaluate(found, np.array([[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]]))
    assert own["ips"].value == pytest.approx(found.rewards.mean())
    assert own["effective_rows"] == pytest.approx(20_000)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    inside = 0
    for seed in range(20):
        found, policy, truth = feedback(1500, 100 + seed)
        dr = offpolicy.evaluate(found, policy)["dr"]
        inside += dr.low < truth < dr.high
    # 19 of 20 on average; 15 or fewer happens once in 400 times.
    assert inside >= 16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"p": 0}, "log: row 1, column p: expected more than 0, at most 1: 0"),
        ({"p": 1.5}, "log: row 1, column p: expected more than 0"),
        ({"click": "often"}, "log: row 1, column click: expected a number"),
        ({"click": None}, "log: row 1, column click: expected a number"),
        ({"item": None}, "log: row 1, column item: expected an id"),
    ],
)
def test_feedback_that_cannot_be_names_the_row(change: dict[str, Any], message: str) -> None:
    good = {"item": "a", "click": 0, "p": 0.5}
    schema = Schema(id="item", label="click", propensity="p")
    with pytest.raises(TableError, match=message):
        offpolicy.read_feedback([good, {**good, **change}], schema)


def test_the_open_bandit_sample(capsys: pytest.CaptureFixture[str]) -> None:
    if not DATA.is_dir():
        pytest.skip("needs the Open Bandit sample, which is not part of the repository")
    for campaign in ("men", "women"):
        by = [str(DATA / f"obd_{policy}_{campaign}.csv.gz") for policy in ("random", "bts")]
        assert main(["rerank", "evaluate", by[0], "--policy", by[1], "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        for name in ("ips", "snips", "dr"):
            # What the policy earned on its own log lies in what the other's log says of it.
            assert said[name]["low"] < said["policy"]["value"] < said[name]["high"]


CHALLENGE = """user_id,session_id,timestamp,step,action_type,reference,platform,city,device,\
current_filters,impressions,prices,split
u,s,10,1,interaction item image,5,DE,"Rome, Italy",mobile,,,,train
v,t,11,1,clickout item,5,DE,"Rome, Italy",mobile,Sort by Price|Hotel,5|6,50|60,train
u,s,12,2,clickout item,6,DE,"Rome, Italy",mobile,,5|6|7,50|60|70,train
w,x,13,1,clickout item,6,DE,"Rome, Italy",mobile,,6|5,60|50,dev
"""


def test_the_challenge_is_read_without_looking_ahead(tmp_path: Path) -> None:
    path = tmp_path / "sessions.csv"
    path.write_text(CHALLENGE)
    first, second, third = read_pages(trivago.rows(path), trivago.SCHEMA)
    assert first.context["sort"] == "Sort by Price"
    # When the visit began, nobody had clicked anything; the user's own touches do not count.
    assert [item["clicks"] for item in second.items] == [0, 0, 0]
    assert [item["touches"] for item in second.items] == [0, 0, 0]
    assert second.labels == [0, 1, 0] and len(second.history) == 1
    assert [item["clicks"] for item in third.items] == [1, 1]
    assert [item["touches"] for item in third.items] == [1, 2]
    # What the session did before: item 5 was touched, a list had been shown to nobody.
    assert [item["fresh"] for item in second.items] == [1, 0, 0]
    assert [item["seen"] for item in second.items] == [0, 0, 0]
    # u touched 5 and 6; no other user had touched anything when u's visit began.
    assert [item["together"] for item in second.items] == [0, 0, 0]
    assert third.items[0]["usual"] == 2 and third.items[1]["usual"] == 1
    assert third.items[0]["cheaper"] == pytest.approx(0)
    assert second.history[0]["value"] == 2


def test_train_a_model_and_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is in the extra train only")
    from palmkit.kits import Reranker

    source = tmp_path / "log.jsonl"
    simulator.main([str(source), "--visits", "60"])
    simulator.SCHEMA.save(tmp_path / "schema.json")
    model, report = tmp_path / "m.palm", tmp_path / "report.html"
    command = ["rerank", "train", str(source), "--schema", str(tmp_path / "schema.json"), "-q"]
    command += ["-o", str(model), "--report", str(report), "--epochs", "2", "--json"]
    assert main([*command, "--no-trees", "--width", "16"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert 0 < said["the network"]["mrr"] <= 1 and "the server's order" in said
    assert "<table>" in report.read_text()
    kit = Reranker(model)
    assert kit.schema == simulator.SCHEMA
    pages = list(read_pages(log(3, 9), simulator.SCHEMA))
    found = kit.rerank(pages[-1].items, pages[-1].history, pages[-1].context, why=True)
    assert sorted(found.rows.tolist()) == list(range(len(pages[-1].items)))
    assert main(["rerank", str(source), "--model", str(model), "--json", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == sum("items" in row for row in log(60, 1))
    assert {"file", "row", "order", "scores", "model", "cold"} == set(json.loads(lines[0]))


def test_the_model_file_gives_what_torch_gives(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is in the extra train only")
    from palmkit.kits.kit import open_model
    from palmkit.kits.ranking.scorer import Description, Scorer
    from palmkit.models.reranker.batches import collate
    from palmkit.models.reranker.export import export
    from palmkit.models.reranker.network import RerankNetwork, Sizes

    torch.manual_seed(0)
    rows = log(4)
    layout = Layout(simulator.SCHEMA, "own", length=20)
    words = dataset.learn_vocabulary(rows, simulator.SCHEMA)
    examples = [dataset.encode(p, layout, words) for p in read_pages(rows, simulator.SCHEMA)]
    scaling = dataset.Scaling.of(examples)
    first = examples[0].inputs
    sizes = Sizes(
        first.items.shape[1],
        first.item_codes.shape[1],
        first.events.shape[1],
        first.event_codes.shape[1],
        len(first.links),
        1 + sum(map(len, words)),
    )
    network = RerankNetwork(sizes).eval()
    torch.nn.init.normal_(network.weights, std=0.2)
    described = Description("reranker", "1.0", layout, words)
    export(network, scaling, described, tmp_path / "m.palm", {})
    scorer = Scorer(open_model(tmp_path / "m.palm", 1, "high"))
    for example in examples:
        with torch.no_grad():
            expected = network(collate([scaling.of_items(example.inputs)])).numpy()[0]
        found = scorer.score(example.inputs, layout.length)
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_trees_learn_what_the_rules_know(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm", reason="lightgbm is in the extra rerank")
    from palmkit.models.reranker.baselines import rules
    from palmkit.models.reranker.trees import Trees

    layout = Layout(simulator.SCHEMA, "any")
    lists = dataset.write_lists(tmp_path, log(80), layout, [{}] * 3)
    rows = np.arange(len(lists))
    trees = Trees(lists, rows[:-60], rows[-60:], 0)
    labels = [lists[int(row)].labels for row in rows]
    found = measures.measure(trees.score(lists, rows), labels)
    for rule in rules(layout).values():
        assert found["mrr"] > measures.measure([rule(each) for each in lists], labels)["mrr"]


def test_without_pages_to_stop_by_all_rounds_and_epochs_count(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is in the extra train only")
    pytest.importorskip("lightgbm", reason="lightgbm is in the extra rerank")
    from palmkit.models.reranker.train import Parts, Recipe, score, train
    from palmkit.models.reranker.trees import Trees

    lists = dataset.write_lists(tmp_path, log(30), Layout(simulator.SCHEMA, "any"), [{}] * 3)
    rows = np.arange(len(lists))
    parts = Parts(rows[:-20], rows[:0], rows[-20:])
    labels = [lists[int(row)].labels for row in parts.test]
    chance = measures.measure([np.zeros(len(each)) for each in labels], labels)["mrr"]
    trees = Trees(lists, parts.train, parts.held_out, 0)
    assert measures.measure(trees.score(lists, parts.test), labels)["mrr"] > chance
    made = train(lists, parts, 0, Recipe(epochs=2, width=16, members=1))
    assert len(made.progress.losses) == 2 and not made.progress.held_out
    assert made.progress.losses[1] < made.progress.losses[0]
    scores = score(made.network, lists, parts.test, made.scaling)
    # The last layer starts near zero: what was averaged is what was learned.
    assert max(float(np.ptp(each)) for each in scores) > 0.1


def test_the_card_says_what_was_measured() -> None:
    said = json.loads((MODELS / "reranker/metrics.json").read_text())
    card = (MODELS / "reranker/card.md").read_text()
    for name in ("the network", "the server's order"):
        assert f"{said['test'][name]['mrr']:.3f}" in card
    for values in said["online"].values():
        assert f"{values['clicks a page']:.2f}" in card
