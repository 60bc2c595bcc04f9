"""A thread that ends while its model runs: an error in good time, and the next model runs."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.ir import Graph, Node, Type
from tests.delivery.page.browser import Browser
from tests.engine.web.package import needs_package
from tests.kits.web.conftest import Served, chromium

pytestmark = needs_package

PAGES = Path(__file__).parent / "threads"
# Of hidden layers, which compute all the time: a thread is in the middle of one when it is ended.
LAYERS, WIDTH = 4, 1024
LONG_MS = 120_000


def write_model(path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [16, *[WIDTH] * (LAYERS + 1), 16]
    constants = {
        f"w{i}": (rng.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32)
        for i, shape in enumerate(zip(sizes, sizes[1:], strict=False))
    }
    names = ["x", *(f"v{i}" for i in range(LAYERS + 1)), "y"]
    nodes = tuple(
        Node("matmul", (before, f"w{i}"), (after,))
        for i, (before, after) in enumerate(zip(names, names[1:], strict=False))
    )
    rows = 4096
    inputs, outputs = Type("float32", (rows, sizes[0])), Type("float32", (rows, sizes[-1]))
    engine.save(Graph({"x": inputs}, {"y": outputs}, nodes, constants), path)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Browser]:
    shutil.copytree(PAGES, tmp_path, dirs_exist_ok=True)
    write_model(tmp_path / "model.palm")
    with Served(tmp_path) as served, chromium() as browser:
        browser.open(f"{served.url}/")
        browser.wait("Boolean(window.ask)")
        yield browser


def answer(page: Browser) -> Any:
    """Return what the worker says next."""
    return page.wait("window.said.shift()")


def ask(page: Browser, question: str, value: int) -> None:
    page.run(f"ask([{question!r}, {value}])")


def run_again(page: Browser, expected: float) -> None:
    """A model that is opened again runs, with two threads."""
    page.run("window.script = undefined")
    ask(page, "open", 2)
    assert answer(page) == {"opened": 2}
    ask(page, "run", 0)
    assert answer(page) == {"running": True}
    assert answer(page)["sum"] == pytest.approx(expected, rel=1e-4)


def open_and_run(page: Browser, threads: int) -> float:
    ask(page, "open", threads)
    assert answer(page) == {"opened": threads}
    ask(page, "run", 0)
    assert answer(page) == {"running": True}
    return float(answer(page)["sum"])


def test_a_thread_that_is_ended_within_a_run(page: Browser) -> None:
    expected = open_and_run(page, 1)
    assert open_and_run(page, 2) == pytest.approx(expected, rel=1e-4)
    ask(page, "run", LONG_MS)
    assert answer(page) == {"running": True}
    page.run("new Promise((done) => setTimeout(done, 300)).then(end)")
    lost = "a thread is gone (nothing came in 20 s): open the model or kit again"
    assert answer(page) == {"error": f"backend: {lost}"}
    ask(page, "run", 0)
    answer(page)
    assert answer(page) == {"error": f"backend: it failed before: {lost}"}
    run_again(page, expected)


def test_a_thread_that_fails(page: Browser) -> None:
    expected = open_and_run(page, 1)
    page.run("window.script = '/failing.js'")
    ask(page, "open", 2)
    assert answer(page) == {"opened": 2}
    ask(page, "run", 1000)
    assert answer(page) == {"running": True}
    said = answer(page)
    if "sum" in said:
        # It failed between two loops: the caller did all of the others.
        assert said["sum"] == pytest.approx(expected, rel=1e-4)
        ask(page, "run", 0)
        answer(page)
        said = answer(page)
    assert said["error"].startswith("backend: ")
    assert "a thread is gone (" in said["error"]
    assert said["error"].endswith("open the model or kit again")
    run_again(page, expected)
