import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from palmkit.engine.errors import TableError
from palmkit.kits.cli import main
from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.schema import Schema
from palmkit.models.reranker import offpolicy, policies, simulator

MODELS = Path(__file__).parents[2] / "models"


class Fixed:
    """Scores that are known: of each item the number in its id."""

    def rerank(self, items: Any, history: Any = (), context: Any = None) -> Any:
        scores = np.array([float(row["id"]) for row in items])
        rows = np.argsort(-scores, kind="stable")
        return SimpleNamespace(rows=rows, scores=scores[rows])


def explored_pages(count: int, seed: int, rate: float) -> tuple[list[dict[str, Any]], float]:
    """Pages in the order of the ids with some chance, and what the largest id next would earn."""
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    truth: list[float] = []
    for number in range(count):
        left = [str(each) for each in range(4)]
        items: list[dict[str, Any]] = []
        chosen: list[str] = []
        for place in range(4):
            earned = {item: (1 + int(item)) / 5 / (1 + place) for item in left}
            truth.append(earned[max(left)])
            at = int(random.integers(len(left))) if random.random() < rate else 0
            chance = rate / len(left) + (1 - rate) * (at == 0)
            name = left.pop(at)
            items.append({"id": name, "position": int(name) + 1, "propensity": chance})
            if random.random() < earned[name]:
                chosen.append(name)
        rows.append({"session": f"s{number}", "time": number, "items": items, "chosen": chosen})
    return rows, float(np.mean(truth))


@pytest.mark.parametrize("position", [None, "position"])
def test_the_estimates_find_what_a_model_earns_on_pages(position: str | None) -> None:
    rows, truth = explored_pages(6000, 1, 0.5)
    schema = Schema(position=position)
    found, choices = policies.judged(rows, schema, Fixed())  # type: ignore[arg-type]
    said = offpolicy.evaluate(found, choices)
    for name in ("ips", "snips", "dr"):
        assert said[name].low < truth < said[name].high
    assert said["mean_weight"] == pytest.approx(1, abs=0.05)
    assert abs(said["logged"].value - truth) > 0.03
    # Only the first place, by chance: a quarter of each item's 1/5, 2/5, 3/5, 4/5.
    first = offpolicy.evaluate(*policies.judged(rows, schema, None, places=1))
    assert first["dr"].low < 0.5 < first["dr"].high
    # A temperature so high that all items are as likely.
    even = policies.judged(rows[:50], schema, Fixed(), 1e9)  # type: ignore[arg-type]
    chance = policies.judged(rows[:50], schema, None)
    assert isinstance(even[1], offpolicy.Choices) and isinstance(chance[1], offpolicy.Choices)
    np.testing.assert_allclose(even[1].chances, chance[1].chances, rtol=1e-6)


def test_a_model_as_the_policy_of_rows_without_pages() -> None:
    random = np.random.default_rng(0)
    rates = {"1": 0.1, "2": 0.6, "3": 0.3}
    rows: list[dict[str, Any]] = []
    for number in range(6000):
        item, place = str(random.integers(1, 4)), 1 + number % 2
        label = float(random.random() < rates[item])
        rows.append({"id": item, "position": place, "label": label, "propensity": 1 / 3})
    schema = Schema(position="position")
    # The best at place 1 is item 3, at place 2 item 2.
    said = offpolicy.evaluate(*policies.judged(rows, schema, Fixed()))  # type: ignore[arg-type]
    assert said["snips"].low < (0.3 + 0.6) / 2 < said["snips"].high
    said = offpolicy.evaluate(*policies.judged(rows, schema, Fixed(), 1.0))  # type: ignore[arg-type]
    shares = np.exp([1.0, 2, 3]) / np.exp([1.0, 2, 3]).sum()
    assert said["dr"].low < shares @ [0.1, 0.6, 0.3] < said["dr"].high


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": 0}, "row 1, column propensity: expected more than 0, at most 1: 0"),
        ({"propensity": None}, "row 1, column propensity: expected more than 0, at most 1: nan"),
        ({"id": "0"}, "page at row 1: items: row 1, column id: also the id of row 0: '0'"),
    ],
)
def test_pages_that_cannot_be_judged_name_the_row(change: dict[str, Any], message: str) -> None:
    rows, _ = explored_pages(2, 0, 0.5)
    rows[1]["items"][1].update(change)
    if "id" in change:
        rows[1]["items"][0]["id"] = "0"
    with pytest.raises(TableError, match=message):
        policies.judged(rows, Schema(), Reranker())


def test_evaluate_takes_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    simulator.main([str(log), "--visits", "60", "--seed", "9", "--explore", "0.5"])
    replace(simulator.SCHEMA, position="position").save(tmp_path / "schema.json")
    shipped = str(MODELS / "reranker/reranker.palm")
    command = ["rerank", "evaluate", str(log), "--schema", str(tmp_path / "schema.json"), "--json"]
    assert main([*command, "--policy", shipped, "--places", "8"]) == 0
    by_model = json.loads(capsys.readouterr().out)
    assert main([*command, "--places", "8"]) == 0
    by_chance = json.loads(capsys.readouterr().out)
    assert by_model["dr"]["value"] > by_chance["dr"]["value"]
    assert by_model["effective_rows"] < by_chance["effective_rows"]
    for wrong in (["--temperature", "-1"], ["--places", "0"]):
        with pytest.raises(SystemExit, match="2"):
            main([*command, *wrong])
        assert "expected" in capsys.readouterr().err
    assert main([*command, "--policy", str(tmp_path / "none.palm")]) == 1
