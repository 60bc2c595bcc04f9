"""The choice of a convolution's algorithm: by the cost model, timed, and remembered."""

import json
import math
import multiprocessing
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import _native as native
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.cpu.costs import ranked_steps
from palmkit.engine.backends.cpu.passes import tune
from palmkit.engine.backends.cpu.passes.tune import choose_algorithms, fastest, signature
from palmkit.engine.backends.cpu.registry import kernels
from palmkit.engine.backends.cpu.timings import TimingsFile
from palmkit.engine.backends.options import Options
from palmkit.engine.ir import Graph, Node, Type
from palmkit.engine.steps.rewriting import Lowered, Purpose
from palmkit.engine.steps.step import Buffer, Step, View, view_bytes

ONE = Purpose(threads=1, tune=True)
TABLES = sorted(Path(__file__).parent.glob("conv_timings_*.json"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tune"


def convolution(
    x: Sequence[int], w: Sequence[int], y: Sequence[int], attrs: dict[str, Any]
) -> Lowered:
    def view(place: str, dims: Sequence[int]) -> View:
        return View(Buffer(place, view_bytes("float32", dims)), "float32", tuple(dims))

    weights = np.random.default_rng(0).normal(size=w, scale=0.1).astype(np.float32)
    inputs = {"image": view("input", x), "weights": view("constant", w)}
    step = kernels().step("conv", "conv", inputs, {"y": view("output", y)}, attrs)
    return Lowered([step], [weights], [], kernels(), ONE)


def plan(channels: int = 16, kernel: int = 5) -> Lowered:
    """A convolution that is done in rows or as a GEMM, with little between them."""
    dims = [1, 24, 24, channels]
    pads = {"pads": [kernel // 2] * 4}
    return convolution(dims, [channels, kernel, kernel, channels], dims, pads)


def choice(lowered: Lowered) -> object:
    return lowered.steps[0].attrs["algorithm"]


def tuned(lowered: Lowered, threads: int = 1) -> Lowered:
    purpose = replace(lowered.purpose, threads=threads)
    return choose_algorithms(replace(lowered, purpose=purpose))


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.stem)
def test_cost_model_loses_little_against_what_was_measured(file: Path) -> None:
    table = json.loads(file.read_text())
    if table["isa"] not in native.isas():
        pytest.skip(f"this machine has no {table['isa']}")
    chosen_us = best_us = 0.0
    losses: list[float] = []
    for shape in table["shapes"]:
        one = convolution(shape["x"], shape["w"], shape["y"], shape["attrs"])
        measured = shape["microseconds"]
        (ranking,) = ranked_steps(one.steps, (), table["isa"])
        chosen = next(each.algorithm for each in ranking if each.algorithm in measured)
        best = min(measured.values())
        chosen_us, best_us = chosen_us + measured[chosen], best_us + best
        losses.append(measured[chosen] / best)
    assert chosen_us < 1.02 * best_us
    assert math.exp(sum(map(math.log, losses)) / len(losses)) < 1.02
    assert sum(loss < 1.05 for loss in losses) > 0.9 * len(losses)
    assert max(losses) < 3


def test_the_same_shape_gives_the_same_choice() -> None:
    one, two = (ranked_steps(each.steps, ()) for each in (plan(), plan()))
    assert one == two
    seconds = [each.seconds for each in one[0]]
    assert seconds == sorted(seconds)
    assert seconds[0] > 0


def test_less_exact_tiles_need_a_lower_precision() -> None:
    names: dict[str, set[str]] = {}
    for precision in ("high", "normal"):
        step = plan(kernel=3).steps[0]
        step = replace(step, attrs={**step.attrs, "precision": precision})
        names[precision] = {each.algorithm for each in ranked_steps([step], ())[0]}
    assert names["normal"] - names["high"] <= {"winograd_6"}
    assert "winograd_6" not in names["high"]


@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [("gemm", 1e-6), ("winograd_2", 1e-6), ("winograd_4", 2e-6), ("winograd_6", 1e-5)],
)
def test_tiles_are_as_exact_as_is_said(algorithm: str, bound: float) -> None:
    """Errors as parts of the output's range, as options.py and ARCHITECTURE.md have them."""
    random = np.random.default_rng(0)
    size, channels = 32, 64
    x = random.normal(size=(1, size, size, channels)).astype(np.float32)
    w = random.normal(size=(channels, 3, 3, channels), scale=1 / 24).astype(np.float32)
    wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = np.zeros(x.shape)
    for i, j in np.ndindex(3, 3):
        expected += wide[:, i : i + size, j : j + size] @ w[:, i, j].T.astype(np.float64)
    tensors = [
        ("input", 0, "float32", list(x.shape)),
        ("constant", 0, "float32", list(w.shape)),
        ("output", 0, "float32", list(x.shape)),
    ]
    attrs: dict[str, Any] = {"pads": [1, 1, 1, 1], "algorithm": algorithm}
    steps = [("conv", [0, 1], [2], attrs)]
    y = np.zeros_like(x)
    native.Program(tensors, steps, [w], 0).session(1).run([x], [y])
    assert np.abs(y - expected).max() < bound * np.ptp(expected)


@pytest.mark.parametrize(("precision", "attribute"), [("high", None), ("normal", "normal")])
def test_precision_reaches_the_convolutions(precision: str, attribute: str | None) -> None:
    graph = Graph(
        {"x": Type("float32", (1, 2, 8, 8))},
        {"y": Type("float32", (1, 4, 6, 6))},
        (Node("conv", ("x", "w"), ("y",)),),
        {"w": np.ones((4, 2, 3, 3), np.float32)},
    )
    plan = Cpu().compile(graph, Options(precision=precision)).plan
    precisions = [step.attrs.get("precision") for step in plan.steps if step.kernel == "conv"]
    assert precisions == [attribute]


def test_fastest_keeps_the_default_unless_the_gain_is_clear() -> None:
    assert fastest({"gemm": 1.0, "rows": 0.99}, "gemm") == "gemm"
    assert fastest({"gemm": 1.0, "rows": 0.9}, "gemm") == "rows"
    assert fastest({"rows": 0.5, "gemm": 0.5, "winograd_4": 1.0}, "winograd_4") == "gemm"


def test_tuned_takes_what_was_fastest_and_remembers(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    calls: list[Sequence[str]] = []

    def time_step(lowered: Lowered, step: Step, algorithms: Sequence[str], *_: object) -> object:
        calls.append(algorithms)
        return {name: 1.0 if name == algorithms[-1] else 2.0 for name in algorithms}

    monkeypatch.setattr(tune, "time_step", time_step)
    one = plan()
    first = tuned(one, 1)
    assert len(calls) == 1
    assert choice(first) == calls[0][-1]
    assert "algorithm" not in one.steps[0].attrs
    assert choice(tuned(plan(), 1)) == choice(first)
    assert len(calls) == 1
    tuned(plan(), 2)
    tuned(plan(24), 1)
    assert len(calls) == 3
    assert len(list(cache.iterdir())) == 1


def test_equal_steps_are_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Step] = []

    def time_step(lowered: Lowered, step: Step, algorithms: Sequence[str], *_: object) -> object:
        calls.append(step)
        return dict.fromkeys(algorithms, 1.0)

    monkeypatch.setattr(tune, "time_step", time_step)
    one = plan()
    tuned(replace(one, steps=[*one.steps] * 3), 1)
    assert len(calls) == 1


def test_what_suits_alone_is_not_timed(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    def time_step(*_: object) -> object:
        raise AssertionError("timed")

    monkeypatch.setattr(tune, "time_step", time_step)
    point = convolution([1, 8, 8, 16], [8, 1, 1, 16], [1, 8, 8, 8], {})
    assert tuned(point, 1).steps == point.steps
    assert not cache.exists()


SECONDS = re.compile(rb"(?<=: )[0-9.e-]+(?=,?\n)")
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "no text": lambda _: bytes(range(256)),
    "a list": lambda _: b"[1, 2]",
    "deep": lambda _: b"[" * 100_000,
    "of another machine": lambda content: content.replace(b'"machine": "', b'"machine": "x'),
    "without steps": lambda content: content.replace(b'"steps"', b'"other"'),
    "steps are text": lambda content: content[: content.index(b"{", 5)] + b'"text"}',
    "seconds are text": lambda content: SECONDS.sub(b'"a"', content),
    "seconds are no number": lambda content: SECONDS.sub(b"NaN", content),
    "seconds are negative": lambda content: SECONDS.sub(b"-1.0", content),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_ignored_and_written_again(damage: str, cache: Path) -> None:
    tuned(plan(), 1)
    (path,) = cache.iterdir()
    good = path.read_bytes()
    bad = DAMAGE[damage](good)
    assert bad != good
    path.write_bytes(bad)
    tuned(plan(), 1)
    content = json.loads(path.read_text())
    assert list(content["steps"]) == [signature(plan(), plan().steps[0])]
    assert all(seconds > 0 for each in content["steps"].values() for seconds in each.values())


def test_timings_of_one_process_do_not_drop_those_of_another() -> None:
    one, two = TimingsFile(), TimingsFile()
    one.add({"a": {"gemm": 1.0}})
    two.add({"b": {"gemm": 2.0}})
    assert TimingsFile().read() == {"a": {"gemm": 1.0}, "b": {"gemm": 2.0}}


def _write_many(name: str, start: Any) -> None:
    start.wait()
    for i in range(50):
        TimingsFile().add({f"{name}{i}": {"gemm": 1.0}})
        assert TimingsFile().read()


def test_processes_may_write_at_the_same_time(cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start = context.Event()
    workers = [context.Process(target=_write_many, args=(name, start)) for name in "abc"]
    for worker in workers:
        worker.start()
    start.set()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    (path,) = cache.iterdir()
    assert json.loads(path.read_text())["machine"] == TimingsFile().machine


def test_another_cpu_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    TimingsFile().add({"a": {"gemm": 1.0}})
    monkeypatch.setattr("palmkit.engine.backends.cpu.timings.cpu_name", lambda: "another")
    assert TimingsFile().read() == {}
    TimingsFile().add({"b": {"gemm": 1.0}})
    assert TimingsFile().read() == {"b": {"gemm": 1.0}}


def test_works_without_a_folder_to_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path / "file"))
    assert choice(tuned(plan(), 1))
    assert TimingsFile().read() == {}


@pytest.mark.skipif(sys.platform != "linux", reason="XDG is of Linux")
def test_the_cache_is_where_the_platform_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PALMKIT_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for home, folder in (
        (str(tmp_path / "x"), tmp_path / "x"),
        ("relative", tmp_path / ".cache"),
        ("", tmp_path / ".cache"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        path = TimingsFile().path
        assert path is not None
        assert path.parent == folder / "palmkit" / "tune"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_tuned_program_gives_the_same_numbers(threads: int) -> None:
    random = np.random.default_rng(0)
    constants = {
        "w": random.normal(size=(24, 16, 5, 5), scale=0.1).astype(np.float32),
        "d": random.normal(size=(24, 1, 3, 3), scale=0.3).astype(np.float32),
    }
    shape, wide = (1, 16, 19, 21), (1, 24, 19, 21)
    graph = Graph(
        {"x": Type("float32", shape)},
        {"y": Type("float32", wide)},
        (
            Node("conv", ("x", "w"), ("a",), {"pads": (2, 2, 2, 2)}),
            Node("conv", ("a", "d"), ("y",), {"pads": (1, 1, 1, 1), "group": 24}),
        ),
        constants,
    )
    x = {"x": random.normal(size=shape).astype(np.float32)}
    plain = Cpu().compile(graph, Options(threads)).run(x)["y"]
    program = Cpu().compile(graph, Options(threads, tune=True))
    assert any(step.attrs.get("algorithm") for step in program.plan.steps)
    np.testing.assert_allclose(program.run(x)["y"], plain, rtol=1e-4, atol=1e-5)
