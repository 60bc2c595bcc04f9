"""A release proves itself before it goes live: its golden inputs give the outputs it came with.

The first run is in a process of its own, so that a model which crashes, hangs or exhausts the
memory does so there. A data file is read by its kit there.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from palmkit.delivery import data_files
from palmkit.delivery.codes import Code
from palmkit.engine.errors import PalmError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from palmkit.engine import Model

READY = "ready"
LIMIT_S = 60.0
# The number of timed runs: at least so many, then more until they have taken so long.
RUNS = 5
TIMED_S = 0.3
Arrays = dict[str, dict[str, "NDArray[np.generic]"]]


@dataclass(frozen=True)
class Question:
    """A model to check.

    model: the file; a data file is only read. golden: the .npz with in/<case>/<input> and
    out/<case>/<output>; None: it must load, and run on zeros if its inputs are static. baseline:
    the model it is timed against.
    """

    model: str
    golden: str | None = None
    rtol: float = 0.0
    atol: float = 0.0
    max_latency_ratio: float = math.inf
    baseline: str | None = None


@dataclass(frozen=True)
class Answer:
    """The result of a check.

    code: None if the model is good; else why not, with a message. load_ms: how long it took to
    load.
    """

    code: Code | None
    reason: str = ""
    load_ms: float = 0.0


def check(question: Question, limit_s: float = LIMIT_S) -> Answer:
    """Answer a question in a process of its own, which may take `limit_s`.

    Where no process can be started (a frozen app, a program with Python inside), this one answers.
    """
    name = os.path.basename(sys.executable or "").lower()
    # Anything but an interpreter may be the app itself, which would be started again.
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy")):
        return ask(question)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    # -P (Python 3.11) keeps modules of the working folder from being imported instead of ours.
    command = [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else [])]
    try:
        process = subprocess.Popen(
            [*command, "-m", "palmkit.delivery.golden", str(math.ceil(limit_s))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            text=True,
        )
    except OSError:
        return ask(question)
    try:
        output, _ = process.communicate(json.dumps(asdict(question)), timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Answer("too_slow", f"not done after {limit_s:g} s")
    lines = output.splitlines()
    if process.returncode < 0 and READY in lines:
        name = signal.Signals(-process.returncode).name
        return Answer("crash_trial", f"its process ended by {name}")
    if READY not in lines:
        return ask(question)
    if process.returncode != 0 or len(lines) < 2:
        return Answer("crash_trial", f"its process ended with code {process.returncode}")
    return Answer(**json.loads(lines[-1]))


def ask(question: Question) -> Answer:
    """Answer in this process; errors that are not the model file's fault are raised."""
    from palmkit.engine import load

    started = time.perf_counter()
    try:
        if data_files.is_data_file(question.model):
            data_files.check(Path(question.model))
            return Answer(None, load_ms=(time.perf_counter() - started) * 1e3)
        model = load(question.model)
        load_ms = (time.perf_counter() - started) * 1e3
        cases, expected = _cases(question, model)
        for case, inputs in cases.items():
            outputs = model.run(inputs)
            if (wrong := _compare(case, outputs, expected.get(case), question)) is not None:
                return wrong
    except (PalmError, ValueError, KeyError, OSError, EOFError, BadZipFile) as error:
        return Answer("load_fail", str(error))
    slow = _timed(model, cases, question)
    return Answer(None, load_ms=load_ms) if slow is None else slow


def _cases(question: Question, model: Model) -> tuple[Arrays, Arrays]:
    import numpy as np

    if question.golden is None:
        if not all(type.is_static for type in model.inputs.values()):
            return {}, {}
        zeros = {name: np.zeros(type.dims, type.dtype) for name, type in model.inputs.items()}
        return {"zeros": zeros}, {}
    found: dict[str, Arrays] = {"in": {}, "out": {}}
    with np.load(question.golden, allow_pickle=False) as arrays:
        for key in arrays.files:
            kind, case, name = key.split("/", 2)
            found[kind].setdefault(case, {})[name] = arrays[key]
    if not found["in"] or found["in"].keys() != found["out"].keys():
        raise ValueError("golden inputs: expected cases with inputs and outputs")
    return found["in"], found["out"]


def _compare(
    case: str,
    outputs: Mapping[str, NDArray[Any]],
    expected: Mapping[str, NDArray[Any]] | None,
    question: Question,
) -> Answer | None:
    import numpy as np

    if not all_finite(outputs):
        return Answer("nan", f"case {case}: the outputs have values that are not finite")
    for name, wanted in (expected or {}).items():
        got = outputs.get(name)
        if got is None or got.shape != wanted.shape:
            shape = "nothing" if got is None else list(got.shape)
            return Answer("golden_fail", f"case {case}: {name}: got {shape}, not {wanted.shape}")
        if not np.allclose(got, wanted, rtol=question.rtol, atol=question.atol):
            error = float(np.abs(got.astype(np.float64) - wanted).max())
            return Answer("golden_fail", f"case {case}: {name}: off by {error:g}")
    return None


def all_finite(outputs: Mapping[str, NDArray[Any]]) -> bool:
    """Return whether the outputs, except integer ones, have no NaN and no infinity."""
    import numpy as np

    return all(np.isfinite(each).all() for each in outputs.values() if each.dtype.kind in "fc")


def _timed(model: Model, cases: Arrays, question: Question) -> Answer | None:
    """Return an answer if the model is twice found too slow beside the baseline, else None."""
    from palmkit.engine import load

    if question.baseline is None or not cases or not math.isfinite(question.max_latency_ratio):
        return None
    inputs = next(iter(cases.values()))
    try:
        baseline = load(question.baseline)
        baseline.run(inputs)
    except PalmError:
        # The inputs differ, so there is nothing to compare with.
        return None
    ratio = 0.0
    for budget_s in (TIMED_S, 4 * TIMED_S):
        ratio = _ratio(model, baseline, inputs, budget_s)
        if ratio <= question.max_latency_ratio:
            return None
    return Answer("too_slow", f"takes {ratio:.2f} times as long as the release before")


def _ratio(model: Model, baseline: Model, inputs: Mapping[str, Any], budget_s: float) -> float:
    """Return the ratio of the median times, run in turns so that both see the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    end = time.perf_counter() + budget_s
    while len(times[0]) < RUNS or time.perf_counter() < end:
        for each, taken in zip((model, baseline), times, strict=True):
            started = time.perf_counter()
            each.run(inputs)
            taken.append(time.perf_counter() - started)
    return median(times[0]) / max(median(times[1]), 1e-9)


def _main() -> None:
    if sys.platform != "win32":
        # The asking process may have ended meanwhile: nothing else would end a model that hangs.
        signal.alarm(int(sys.argv[1]) + 5)
    import_module("palmkit.engine")  # A failure of this is not the model's fault.
    print(READY, flush=True)
    answer = ask(Question(**json.loads(sys.stdin.read())))
    print(json.dumps(asdict(answer)), flush=True)


if __name__ == "__main__":
    _main()
