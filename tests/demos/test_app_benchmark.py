"""The benchmark page: a process beside the window, and what becomes of its lines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palmkit.delivery.embedded import shipped
from palmkit.kits.table import KITS
from tests.demos.driving import NEEDS_MODELS, Said, Wait, click, discard, find, press

if TYPE_CHECKING:
    from palmkit.demos.app.page import Context
    from palmkit.demos.app.pages.benchmark import BenchmarkPage

pytestmark = NEEDS_MODELS


def test_every_model_and_kit_is_timed() -> None:
    command = [sys.executable, "-W", "error", "-m", "palmkit.demos.app.timing", "--seconds", "0.02"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    plan, *lines = map(json.loads, done.stdout.splitlines())
    jobs = [job["name"] for job in plan["jobs"]]
    assert jobs == [*shipped(), *(entry.title for entry in KITS.values())]
    rows = [line for line in lines if "name" in line]
    assert [line["started"] for line in lines if "started" in line] == jobs
    assert [row["name"] for row in rows] == jobs
    for row in rows:
        assert "error" not in row, row
        assert 0 < row["min_ms"] <= row["median_ms"] <= row["p95_ms"] and row["runs"] >= 5


@pytest.fixture
def page(context: Context, complaints: list[str]) -> Iterator[BenchmarkPage]:
    from palmkit.demos.app.pages.benchmark import BenchmarkPage

    page = BenchmarkPage(context)
    page.resize(900, 600)
    page.show()
    page.activateWindow()
    yield page
    page.shutdown()
    discard(page)


def test_an_empty_page_says_what_to_do(page: BenchmarkPage, wait: Wait) -> None:
    from PySide6.QtWidgets import QLabel, QPushButton

    hint = find(page.table, QLabel, "empty_hint")
    run = find(page, QPushButton, "benchmark_run").text().replace("&", "")
    assert hint.isVisible() and f"Press {run}" in hint.text()
    viewport = page.table.viewport()
    assert hint.geometry() == viewport.rect() and viewport.height() > 100
    page.resize(500, 400)
    wait(lambda: hint.geometry() == viewport.rect(), "the hint to stay within the table")
    assert hint.heightForWidth(hint.width()) <= hint.height()
    page.start(seconds=0.02, only=["re-ranking"])
    assert "Press" not in hint.text()
    wait(lambda: page.rows, "the first row")
    assert not hint.isVisible()
    page.cancel()
    wait(lambda: not page.is_running, "the end")


def test_a_table_fills_while_the_window_lives(
    page: BenchmarkPage, context: Context, wait: Wait, tmp_path: Path
) -> None:
    from PySide6.QtGui import QGuiApplication
    from PySide6.QtWidgets import QLabel, QProgressBar, QPushButton

    paused: list[bool] = []
    context.pause_live.connect(paused.append)
    turns = 0

    def over() -> bool:
        nonlocal turns
        turns += 1
        return not page.is_running

    page.start(seconds=0.02, only=["face_mesh", "portrait", "re-ranking"])
    assert not find(page, QPushButton, "benchmark_run").isEnabled()
    wait(over, "the end")
    # The process has its own Python: the window's loop went on, far oftener than a row came.
    assert turns > 20
    assert paused == [True, False]
    assert [row["name"] for row in page.rows] == ["face_mesh", "portrait", "re-ranking"]
    assert page.table.rowCount() == 3
    bar = find(page, QProgressBar, "benchmark_progress")
    assert bar.value() == bar.maximum() == 3
    assert find(page, QLabel, "benchmark_said").text() == "3 timed."
    copy = find(page, QPushButton, "benchmark_copy")
    click(copy)
    table = QGuiApplication.clipboard().text()
    assert table.splitlines()[2].startswith("| What | Kind | Median ms")
    assert table.count("\n| face_mesh | model | ") == 1
    page.save(tmp_path / "times.json")
    assert [row["name"] for row in json.loads((tmp_path / "times.json").read_text())["rows"]] == [
        row["name"] for row in page.rows
    ]
    page.save(tmp_path / "times.md")
    assert (tmp_path / "times.md").read_text() == table + "\n"


def test_it_can_be_cancelled_by_a_key(page: BenchmarkPage, wait: Wait) -> None:
    from PySide6.QtCore import Qt
    from PySide6.QtWidgets import QLabel, QPushButton

    run, cancel = (find(page, QPushButton, f"benchmark_{name}") for name in ("run", "cancel"))
    wait(page.isActiveWindow, "the focus")
    press(run, Qt.Key.Key_Space)
    assert page.is_running and cancel.hasFocus()
    wait(lambda: page.rows, "the first row")
    press(cancel, Qt.Key.Key_Space)
    wait(lambda: not page.is_running, "the end", limit_s=5)
    assert find(page, QLabel, "benchmark_said").text().startswith("Cancelled after ")
    assert 0 < page.table.rowCount() == len(page.rows) < 14
    assert run.isEnabled() and not cancel.isEnabled()


def test_what_goes_wrong_is_said(
    page: BenchmarkPage,
    context: Context,
    wait: Wait,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    said = Said(context)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    page.start()
    wait(lambda: said.all, "that it does not start")
    assert said.of("error") and not page.is_running
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho not JSON\necho 'Boom: no' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    page.start()
    wait(lambda: len(said.all) > 1, "that it ended")
    assert said.of("error")[1] == "benchmark: Boom: no" and not page.is_running
    page.save(tmp_path / "no" / "folder.md")
    assert "folder.md" in said.of("error")[2]
