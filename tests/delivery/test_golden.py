"""What a release is put through before it may run, in the process that is started for it."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.delivery import golden
from palmkit.delivery.golden import Question
from palmkit.engine.ir import Graph, Node, Type
from tests.delivery.devices import golden_bytes, model_file


@pytest.fixture
def question(tmp_path: Path) -> Question:
    model = model_file(tmp_path / "model.palm", 2)
    (tmp_path / "golden.npz").write_bytes(golden_bytes(2))
    return Question(str(model), str(tmp_path / "golden.npz"), 1e-4, 1e-4)


def changed(question: Question, **values: Any) -> Question:
    return Question(**{**question.__dict__, **values})


def test_a_good_release_passes(question: Question) -> None:
    answer = golden.check(question)
    assert (answer.code, answer.reason) == (None, "") and answer.load_ms > 0
    assert golden.check(changed(question, golden=None)).code is None


@pytest.mark.parametrize(
    ("factor", "code", "reason"),
    [
        (2.1, "golden_fail", "case one: y: off by 0.3"),
        (math.nan, "nan", "not finite"),
        (math.inf, "nan", "not finite"),
    ],
)
def test_wrong_numbers_do_not(
    question: Question, tmp_path: Path, factor: float, code: str, reason: str
) -> None:
    other = model_file(tmp_path / "other.palm", factor)
    answer = golden.check(changed(question, model=str(other)))
    assert answer.code == code and reason in answer.reason
    if code == "nan":
        assert golden.check(changed(question, model=str(other), golden=None)).code == "nan"


@pytest.mark.parametrize("content", [b"", b"no model", b"\0" * 4096])
def test_what_is_no_model_does_not_load(question: Question, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.palm").write_bytes(content)
    answer = golden.check(changed(question, model=str(tmp_path / "other.palm")))
    assert answer.code == "load_fail"


def test_golden_inputs_for_another_model_do_not(question: Question, tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez(file, **{"in/one/z": np.ones(4, np.float32), "out/one/y": np.ones(4, np.float32)})  # type: ignore[arg-type]
    for content in (file.getvalue(), b"no archive", b""):
        (tmp_path / "golden.npz").write_bytes(content)
        assert golden.check(question).code == "load_fail"


def test_a_model_that_crashes_takes_only_its_own_process(
    question: Question, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No known file crashes the engine: the process is made to, while it loads the model."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys, threading\n"
        "def wait(event, arguments):\n"
        f"    if event == 'open' and arguments[0] == {question.model!r}:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "sys.addaudithook(wait)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    answer = golden.check(question)
    assert (answer.code, answer.reason) == ("crash_trial", "its process ended by SIGSEGV")


def test_a_model_that_hangs_is_stopped(
    question: Question, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n"
        "def wait(event, arguments):\n"
        f"    if event == 'open' and arguments[0] == {question.model!r}:\n"
        "        time.sleep(60)\n"
        "sys.addaudithook(wait)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    answer = golden.check(question, limit_s=4)
    assert (answer.code, answer.reason) == ("too_slow", "not done after 4 s")


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="needs signals")
def test_a_model_that_hangs_does_not_outlive_long_who_asked(question: Question) -> None:
    """The process that was started ends by itself."""
    command = [sys.executable, "-m", "palmkit.delivery.golden", "-4"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        # It was told 4 s less than none, and is given 5 s more; its question never comes.
        assert process.wait(timeout=30) == -signal.SIGALRM


def test_where_no_process_can_be_started_it_is_asked_here(
    question: Question, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = changed(question, model=str(model_file(tmp_path / "other.palm", 3)))
    app, started = tmp_path / "app", tmp_path / "started"
    app.write_text(f"#!/bin/sh\ntouch {started}\n")
    app.chmod(0o755)
    for executable in ("", str(tmp_path / "python3"), str(app)):
        monkeypatch.setattr(sys, "executable", executable)
        assert golden.check(question).code is None
        assert golden.check(wrong).code == "golden_fail"
    assert not started.exists()


def test_a_slower_release_is_noticed(tmp_path: Path) -> None:
    """Forty products of matrices beside one."""

    def model(count: int) -> str:
        type = Type("float32", (256, 256))
        names = ["x", *(f"x{i}" for i in range(count - 1)), "y"]
        nodes = tuple(
            Node("matmul", (a, "w"), (b,)) for a, b in zip(names, names[1:], strict=False)
        )
        weights = np.eye(256, dtype=np.float32)
        path = tmp_path / f"{count}.palm"
        engine.save(Graph({"x": type}, {"y": type}, nodes, {"w": weights}), path)
        return str(path)

    x = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    file = tmp_path / "golden.npz"
    np.savez(file, **{"in/one/x": x, "out/one/y": x})  # type: ignore[arg-type]
    slow = Question(model(40), str(file), 1e-3, 1e-3, 5.0, model(1))
    answer = golden.check(slow)
    assert answer.code == "too_slow" and "times as long as the release before" in answer.reason
    assert golden.check(changed(slow, max_latency_ratio=1000.0)).code is None
    other = model_file(tmp_path / "other.palm", 1)
    assert golden.check(changed(slow, baseline=str(other))).code is None


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_process_that_is_killed_speaks_against_the_model(
    question: Question, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process is killed, as by the system when memory runs out."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "def stop(event, arguments):\n"
        f"    if event == 'open' and arguments[0] == {question.golden!r}:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(stop)\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert golden.check(question).reason == "its process ended by SIGKILL"
    assert os.path.exists(question.model)
