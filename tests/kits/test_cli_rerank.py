import json
from pathlib import Path
from typing import Any

import pytest

from palmkit.kits.cli import main

ITEMS: list[dict[str, Any]] = [
    {"id": f"i{row}", "price": 5.0 + row, "brand": "ab"[row % 2]} for row in range(8)
]
HISTORY = [{"event": "click", "id": "i5", "time": 3, "brand": "b", "price": 10.0}]


def page(folder: Path, **more: Any) -> str:
    path = folder / "page.json"
    path.write_text(json.dumps({"items": ITEMS, "history": HISTORY, **more}))
    return str(path)


def test_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rerank", page(tmp_path), "--json", "--why"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(found["order"]) == [item["id"] for item in ITEMS]
    assert len(found["scores"]) == len(found["why"]) == 8 and not found["cold"]
    assert main(["rerank", page(tmp_path, history=[]), "-q"]) == 0
    said = capsys.readouterr().out
    assert "i0 i1 i2" in said and "nothing is known" in said


def test_ids_are_printed_as_they_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [{**item, "id": row} for row, item in enumerate(ITEMS[:3])] + [{**ITEMS[3], "id": "3"}]
    history = [{"event": "purchase", "id": 2, "time": 3}]
    assert main(["rerank", page(tmp_path, items=items, history=history), "--json"]) == 0
    order = json.loads(capsys.readouterr().out)["order"]
    assert sorted(order, key=str) == [0, 1, 2, "3"]


def test_unknown_kinds_of_events_are_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = [{"event": "purhcase", "id": "i5", "time": 3}]
    assert main(["rerank", page(tmp_path, history=history), "-q"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.endswith("got 'purhcase', did you mean purchase?\n")


def test_a_log_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.jsonl"
    rows: list[dict[str, Any]] = [
        {"session": "s", "time": 1, "items": ITEMS, "chosen": ["i3"]},
        {"session": "s", "time": 2, "items": ITEMS, "chosen": []},
    ]
    log.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "orders.jsonl"
    assert main(["rerank", str(log), "--json", "-o", str(out)]) == 0
    cold, warm = map(json.loads, out.read_text().splitlines())
    assert cold["cold"] and not warm["cold"] and warm["row"] == 1
    assert main(["rerank", str(log), "--propose"]) == 0
    assert json.loads(capsys.readouterr().out)["price"] == "price"


def test_what_is_wrong_is_said_and_the_rest_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"items": [*ITEMS, ITEMS[2]]}))
    assert main(["rerank", str(bad), page(tmp_path), "--json", "-q"]) == 1
    said = capsys.readouterr()
    assert "items: row 8, column id: also the id of row 2: 'i2'" in said.err
    assert json.loads(said.out)["order"]
    out = tmp_path / "out.jsonl"
    assert main(["rerank", str(bad), "-o", str(out), "-q"]) == 1 and not out.exists()
    for wrong in ("missing.json", "missing.csv"):
        assert main(["rerank", str(tmp_path / wrong)]) == 1
    nonsense = tmp_path / "nonsense.json"
    nonsense.write_text("[")
    assert main(["rerank", str(nonsense)]) == 1
    assert "expected JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["-o", "m.onnx"],
        ["-o", "m.palm", "--epochs", "0"],
        ["-o", "m.palm", "--width", "30"],
        ["-o", "m.palm", "--dropout", "1"],
    ],
)
def test_options_of_train(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["rerank", "train", "log.jsonl", *options])
    assert "expected" in capsys.readouterr().err


def test_commands_of_two_words_have_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["rerank"], ["rerank", "train"], ["rerank", "evaluate"]):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        assert f"usage: palmkit {' '.join(words)}" in capsys.readouterr().out


def test_evaluate_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "item_id,position,click,propensity\n" + "a,1,1,0.5\nb,1,0,0.5\na,2,0,0.5\nb,2,1,0.5\n" * 50
    )
    assert main(["rerank", "evaluate", str(log)]) == 0
    assert "IPS                         0.50000" in capsys.readouterr().out
    log.write_text("item_id,position,click,propensity\na,1,1,0\n")
    assert main(["rerank", "evaluate", str(log)]) == 1
    assert "row 0, column propensity: expected more than 0" in capsys.readouterr().err


def test_the_benchmark_runs() -> None:
    from palmkit.kits.bench.rerank import time_rerank

    assert all(value > 0 for value in time_rerank(items=10, events=5, runs=2))
