"""Engines in turns: real processes with engines made for it."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.bench.comparison import Comparison, Schedule, Subject, compare, steps
from palmkit.engine.bench.engines import OURS, find
from palmkit.engine.ir import Graph, Node, Type

pytest.importorskip("palmkit.engine._native", reason="the native runtime is not built")

ROOT = Path(__file__).parents[3]
QUICK = Schedule(seconds=0.06, turns=3, loads=2, open_limit_s=30, slice_limit_s=10)
GRAPH = Graph(
    {"x": Type("float32", (1, 4))},
    {"y": Type("float32", (1, 4))},
    (Node("add", ("x", "one"), ("y",)),),
    {"one": np.ones(1, np.float32)},
)


@pytest.fixture(autouse=True)
def tests_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the engines' processes, too."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    engine.save(GRAPH, tmp_path / "x.palm")
    for name in ("x.onnx", "x.tflite"):
        (tmp_path / name).write_bytes(b"of no importance")
    files = {form: tmp_path / f"x.{form}" for form in ("palm", "onnx", "tflite")}
    inputs = {"x": np.arange(4, dtype=np.float32).reshape(1, 4)}
    return Subject("x.onnx", files, inputs, ("y",), macs=1000)


def fake(name: str) -> str:
    return f"tests.engine.bench.engines:{name}"


def run(subject: Subject, *names: str, schedule: Schedule = QUICK) -> Comparison:
    engines = [fake(name) if name != OURS else name for name in names]
    return compare(subject, engines, schedule=schedule, cache=subject.files["palm"].parent)


def log(subject: Subject) -> list[tuple[str, int, str, float]]:
    """Class, process, what, when; in the order in which it happened."""
    lines = (subject.files["palm"].parent / "log").read_text().splitlines()
    rows = [line.split() for line in lines]
    return [(row[0], int(row[1]), row[2], float(row[3])) for row in rows]


def test_engines_take_turns(subject: Subject) -> None:
    found = run(subject, OURS, "Plain", "Other")
    assert not found.refusals
    assert [each.title for each in found.results] == ["PalmKit", "Plain", "Other"]
    kept = {(name, pid) for name, pid, what, _ in log(subject) if what == "open"}
    assert len(kept) == 4, "each load has a process of its own"
    runs = [name for name, _, what, _ in log(subject) if what == "run"]
    turns = [name for i, name in enumerate(runs) if i == 0 or runs[i - 1] != name]
    # Two loads, then three turns.
    assert turns == ["Plain", "Other"] * 5
    for each in found.results:
        times = each.times
        assert 0 < times.min_ms <= times.median_ms <= times.p95_ms
        assert each.load_ms > 0 and each.difference == 0
    assert all(each.times.runs >= 9 for each in found.results)
    assert found.results[1].times.min_ms >= 2


def test_who_has_no_turn_is_stopped_with_its_threads(subject: Subject) -> None:
    run(subject, "Spins", "Plain")
    # The last loads of both come first: what is looked at are the turns.
    events = [each for each in log(subject) if each[2] != "open"]
    last_load = [i for i, each in enumerate(log(subject)) if each[2] == "open"][-1]
    events = [each for each in log(subject)[last_load + 1 :]]
    spun = [at for name, _, what, at in events if (name, what) == ("Spins", "spin")]
    assert len(spun) > 20
    plain = [at for name, _, _, at in events if name == "Plain"]
    slices = [[plain[0]]]
    for before, at in zip(plain, plain[1:], strict=False):
        if any(before < each < at for each in spun):
            slices.append([])
        slices[-1].append(at)
    assert len(slices) <= 1 + QUICK.turns, "the thread ran while it was another's turn"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Refuses", "from .onnx: an operator it lacks"),
        ("Raises", "from .onnx: KeyError: 'an operator\\nit lacks'"),
        ("Dies", "from .onnx: its process was ended by SIGABRT: last words"),
        ("Hangs", "from .onnx: no answer within 2 s"),
        ("DiesLater", "from .onnx: its process ended with 3"),
        ("IsWrong", "from .onnx: wrong outputs: they differ by 0.1 of an output's range"),
        ("GivesTwo", "from .onnx: its outputs do not correspond to the model's"),
        (
            "Missing",
            'not installed: no module no_such_module_at_all; pip install "palmkit[bench]"',
        ),
    ],
)
def test_who_fails_is_left_out_and_the_rest_goes_on(
    subject: Subject, name: str, reason: str
) -> None:
    limit_s = 2 if name == "Hangs" else 30
    schedule = Schedule(0.06, 3, 2, open_limit_s=limit_s, slice_limit_s=10)
    found = run(subject, OURS, name, "Plain", schedule=schedule)
    assert found.refusals == {fake(name): reason}
    assert [each.title for each in found.results] == ["PalmKit", "Plain"]
    assert found.best_peer is not None and found.best_peer.title == "Plain"
    ours = found.results[0].times.min_ms
    assert found.ratio == pytest.approx(found.results[1].times.min_ms / ours)


def test_no_process_is_left(subject: Subject) -> None:
    schedule = Schedule(0.06, 3, 2, open_limit_s=2, slice_limit_s=10)
    run(subject, "Plain", "Hangs", "DiesLater", schedule=schedule)
    for _, pid, _, _ in log(subject):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
def test_stopped_processes_end_with_their_parent(subject: Subject, tmp_path: Path) -> None:
    engine_name = fake("Plain")
    code = f"""
import time
from dataclasses import replace
from pathlib import Path
import numpy as np
from palmkit.engine.bench.engines import Job
from palmkit.engine.bench.process import EngineProcess
process = EngineProcess({engine_name!r})
x = np.ones((1, 4), np.float32)
process.open(Job(Path("x"), "onnx", {{"x": x}}, ("y",), 1, "high", Path({str(tmp_path)!r})))
process.stop()
print(process.pid, flush=True)
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        assert becomes(child, "T")
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    assert becomes(child, "", "Z")


def becomes(pid: int, *states: str) -> bool:
    ends = time.monotonic() + 20
    while state(pid) not in states and time.monotonic() < ends:
        time.sleep(0.05)
    return state(pid) in states


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_the_next_form_is_tried(subject: Subject) -> None:
    found = run(subject, OURS, "ReadsTwo")
    assert not found.refusals
    assert [each.form for each in found.results] == ["palm", "onnx"]


def test_a_form_that_is_not_there_is_said(subject: Subject) -> None:
    files = {"palm": subject.files["palm"]}
    lacking = Subject("x.pb", files, subject.inputs, ("y",), missing={"onnx": "it has an op"})
    found = run(lacking, OURS, "ReadsTwo", "Plain")
    assert found.refusals[fake("ReadsTwo")] == "reads .tflite or .onnx only; it has an op"
    assert found.refusals[fake("Plain")] == "reads .onnx only; it has an op"
    assert found.ratio is None and found.best_peer is None and found.ours is not None


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_memory_is_what_opening_added(subject: Subject) -> None:
    found = run(subject, OURS, "Plain", "Hoards")
    plain, hoards = (each.memory_bytes for each in found.peers)
    assert plain is not None and plain < 8e6
    assert hoards is not None and 60e6 < hoards < 80e6
    peak = found.peers[1].peak_memory_bytes
    assert peak is not None and 125e6 < peak < 160e6
    assert found.memory_ratio is not None


def test_conversions_are_kept(subject: Subject) -> None:
    for _ in range(2):
        assert not run(subject, "Converts").refusals
    assert [what for _, _, what, _ in log(subject)].count("convert") == 1
    subject.files["onnx"].write_bytes(b"another model")
    run(subject, "Converts")
    assert [what for _, _, what, _ in log(subject)].count("convert") == 2


def test_what_engines_leave_is_not_left_in_the_current_folder(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    files = {form: Path("..") / file.name for form, file in subject.files.items()}
    assert not run(replace(subject, files=files), OURS, "Converts").refusals
    assert not list(here.iterdir())


def test_progress_is_reported(subject: Subject) -> None:
    said: list[str] = []
    compare(subject, [OURS], schedule=QUICK, report=said.append)
    assert len(said) == steps(1, QUICK) and {"PalmKit loads", "PalmKit runs"} == set(said)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="turns: expected at least 1, got 0"):
        Schedule(turns=0)
    with pytest.raises(ValueError, match="seconds: expected more than 0, got 0"):
        Schedule(seconds=0)
    with pytest.raises(ValueError, match="no engine 'abacus'; known: palmkit, ort"):
        find("abacus")
