"""What is said of comparisons: text, JSON, page."""

import json
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from palmkit.engine.bench import table
from palmkit.engine.bench.charts import Bar, bars
from palmkit.engine.bench.comparison import Comparison, Result, Schedule
from palmkit.engine.bench.measurement import Times
from palmkit.engine.bench.report import Method, write

ENGINES = {"palmkit": "PalmKit", "ort": "ONNX Runtime", "mnn": "MNN"}
PEAKS: dict[int, float | None] = {1: 100e9, 2: 200e9}


def result(engine: str, ms: float, load_ms: float, memory: int | None = 2_000_000) -> Result:
    times = Times(200, ms, ms * 1.1, ms * 1.3)
    title = ENGINES[engine]
    return Result(engine, title, "1.2", "onnx", times, load_ms, load_ms, memory, memory, 1e-6)


def comparison(model: str, threads: int, ours: float, ort: float) -> Comparison:
    results = (result("palmkit", ours, 4.0), result("ort", ort, 8.0, 6_000_000))
    refusals = {"mnn": "from .onnx: wrong <outputs>"}
    return Comparison(model, threads, "high", 50_000_000, results, refusals)


COMPARISONS = [
    comparison("a<b>.onnx", 1, 2.0, 4.0),
    comparison("c.onnx", 1, 1.0, 8.0),
    comparison("a<b>.onnx", 2, 1.25, 2.5),
]


def test_ratios_and_means() -> None:
    first = COMPARISONS[0]
    assert (first.ratio, first.load_ratio, first.memory_ratio) == (2, 2, 3)
    means = table.means(COMPARISONS)
    assert means[1] == {
        "ratio": pytest.approx(4),
        "load_ratio": pytest.approx(2),
        "memory_ratio": pytest.approx(3),
    }
    assert means[2]["ratio"] == pytest.approx(2)
    assert table.scaling(COMPARISONS) == {"a<b>.onnx": {2: {"palmkit": 1.6, "ort": 1.6}}}


def test_without_peers_or_memory_there_is_no_ratio() -> None:
    alone = Comparison("a", 1, "high", None, (result("palmkit", 1, 1, None),), {})
    assert alone.ratio is None and alone.load_ratio is None and alone.memory_ratio is None
    assert table.means([alone]) == {1: {}}
    assert table.flops_per_s(alone, alone.results[0]) is None
    assert "1.0 / ?" in "\n".join(table.loads([alone], ENGINES))


def test_facts_are_json() -> None:
    facts: dict[str, Any] = json.loads(json.dumps(table.facts(COMPARISONS[0], PEAKS)))
    assert facts["engines"]["palmkit"]["flops_per_s"] == pytest.approx(50e9)
    assert facts["engines"]["palmkit"]["peak_share"] == pytest.approx(0.5)
    assert facts["engines"]["ort"]["min_ms"] == 4
    assert facts["best_peer"] == "ort" and facts["ratio"] == 2
    assert facts["refusals"] == {"mnn": "from .onnx: wrong <outputs>"}


def test_text() -> None:
    lines = table.Table(ENGINES, 20)
    assert lines.head().split()[-4:] == ["ratio", "GFLOP/s", "of", "peak"]
    assert lines.line(COMPARISONS[0], PEAKS[1]).split() == [
        *("a<b>.onnx", "2.000", "4.000", "-", "2.00", "50.0", "50%")
    ]
    summary = table.summary(table.means(COMPARISONS), table.scaling(COMPARISONS))
    assert summary[0] == (
        "geometric mean of the ratios, threads 1: time 4.00, load 2.00, memory 3.00"
    )
    assert summary[-1] == "a<b>.onnx, 2 threads over 1: palmkit 1.60, ort 1.60"
    assert table.refusals(COMPARISONS, ENGINES) == [
        "a<b>.onnx: MNN is left out: from .onnx: wrong <outputs>",
        "c.onnx: MNN is left out: from .onnx: wrong <outputs>",
    ]


def test_page(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.html"
    write(path, COMPARISONS, ENGINES, PEAKS, Method.of(Schedule()), "high")
    text = path.read_text(encoding="utf-8")
    HTMLParser().feed(text)
    for expected in (
        *("4.00×", "a&lt;b&gt;.onnx", "ONNX Runtime 1.2", "2 threads", "50.0", "50%", "Scaling"),
        *("from .onnx: wrong &lt;outputs&gt;", "100 on 1, 200 on 2 threads", "float32"),
        *("Load to first results", "Memory added", "prefers-color-scheme:dark"),
    ):
        assert expected in text, expected
    assert "<b>.onnx" not in text and "<script" not in text and "http" not in text
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    # Two plots of ratios; times, loads and memory of each model; one of scaling.
    assert len(drawings) == 2 + 3 + 2 + 2 + 1
    for each in drawings:
        ElementTree.fromstring(each)
    assert os.listdir(path.parent) == ["report.html"]


def test_tables_for_documents(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    write(path, COMPARISONS, ENGINES, PEAKS, Method.of(Schedule()), "high")
    times, loads = path.read_text(encoding="utf-8").split("\n\n")
    assert times.splitlines()[2:] == [
        "| a<b>.onnx | 2 | 4 ONNX Runtime | 2.00 | 1.25 | 2.5 ONNX Runtime | 2.00 |",
        "| c.onnx | 1 | 8 ONNX Runtime | 8.00 | - | - | - |",
        "| geometric mean |  |  | 4.00 |  |  | 2.00 |",
    ]
    assert loads.splitlines()[2] == (
        "| a<b>.onnx | 4 | 8 ONNX Runtime | 2.00 | 2 | 6 ONNX Runtime | 3.00 |"
    )


def test_page_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write(path, COMPARISONS, ENGINES, PEAKS, Method.of(Schedule()), "high")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report.html"]


def test_bars_are_as_long_as_their_values() -> None:
    drawn = ElementTree.fromstring(
        bars([Bar("a", 1.0, "1", "ours", "hint"), Bar("b", 4.0, "4", "peer")], "both", mark=2.0)
    )
    widths = [float(each.get("width", "0")) for each in drawn.iter() if each.tag == "rect"]
    assert widths[1] == pytest.approx(4 * widths[0], rel=0.01)
    lines = [each for each in drawn.iter() if each.tag == "line"]
    starts = [float(each.get("x", "0")) for each in drawn.iter() if each.tag == "rect"]
    assert float(lines[0].get("x1", "0")) == pytest.approx(starts[0] + 2 * widths[0], abs=0.5)
    assert bars([], "none") == ""
