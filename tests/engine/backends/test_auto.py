"""The choice between CPU and GPU: the faster one, timed once, and never silent."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.engine import BackendError, Graph, Model, Type, load, save
from palmkit.engine.backends import CHOICES, chain
from palmkit.engine.backends.cpu import Cpu
from palmkit.engine.backends.options import DEFAULTS, Options
from palmkit.engine.ir import Array, Node

INPUTS = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(1, 3, 4, 4)}


@pytest.fixture
def graph() -> Graph:
    type = Type("float32", (1, 3, 4, 4))
    return Graph({"x": type}, {"y": type}, (Node("relu", ("x",), ("y",)),), {})


class _Program:
    """A program of the CPU that says that it is another, and takes so long by the clock."""

    def __init__(self, inner: Any, clock: list[float], seconds: float) -> None:
        self._inner, self._clock, self._seconds = inner, clock, seconds
        self.devices = ("gpu: made up",)
        self.runs = 0

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        self.runs += 1
        self._clock[0] += self._seconds
        found: dict[str, Array] = self._inner.run(inputs)
        return found


class _Gpu:
    """A GPU, if it is there: made ready so often, it runs in so many seconds, or fails."""

    def __init__(self, clock: list[float]) -> None:
        self.clock, self.seconds, self.reason, self.error = clock, 0.0, "", ""
        self.compiled = 0

    def missing(self) -> str:
        return self.reason

    def prepared(self, graph: Graph) -> Graph:
        return graph

    def compile(self, graph: Graph, options: Options = DEFAULTS) -> _Program:
        self.compiled += 1
        if self.error:
            raise BackendError(self.error)
        return _Program(Cpu().compile(graph, options), self.clock, self.seconds)


class _Device:
    name = "made up"


def _device(kind: str) -> _Device:
    assert kind == "hardware"
    return _Device()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> _Gpu:
    """A GPU that takes no time; the CPU takes a thousandth of a second."""
    clock = [0.0]
    made = _Gpu(clock)
    choice: Any = CHOICES["auto"]
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(choice, "_gpu", made)
    monkeypatch.setattr("palmkit.engine.backends.gpu.device.device", _device)
    monkeypatch.setattr("palmkit.engine.backends.auto.time.perf_counter", lambda: clock[0])
    from palmkit.engine.backends.cpu.program import NativeProgram

    run = NativeProgram.run

    def timed(self: NativeProgram, inputs: Mapping[str, Array]) -> dict[str, Array]:
        clock[0] += 0.001
        return run(self, inputs)

    monkeypatch.setattr(NativeProgram, "run", timed)
    return made


# The made-up program runs on the CPU, and takes its time as well.
@pytest.mark.parametrize(("seconds", "device"), [(-0.0005, "gpu: made up"), (0.001, "cpu")])
def test_the_faster_one_runs_the_model(
    gpu: _Gpu, graph: Graph, seconds: float, device: str, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.seconds = seconds
    with caplog.at_level(logging.INFO, "palmkit.engine"):
        model = Model(graph, "auto")
    assert model.devices == (device,)
    assert f"backend auto: chose {device}" in caplog.text and "ms" in caplog.text
    assert np.array_equal(model.run(INPUTS)["y"], np.maximum(INPUTS["x"], 0))


def test_hardly_faster_is_not_better(gpu: _Gpu, graph: Graph) -> None:
    gpu.seconds = -0.00005
    assert Model(graph, "auto").devices == ("cpu",)


def test_times_are_kept_by_model_and_options(gpu: _Gpu, graph: Graph) -> None:
    gpu.seconds = 0.001
    assert Model(graph, "auto").devices == ("cpu",) and gpu.compiled == 1
    assert Model(graph, "auto").devices == ("cpu",) and gpu.compiled == 1
    Model(graph, "auto", threads=2)
    assert gpu.compiled == 2


def test_a_gpu_that_fails_is_no_choice(
    gpu: _Gpu, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.error = "lost"
    with caplog.at_level(logging.INFO, "palmkit.engine"):
        assert Model(graph, "auto").devices == ("cpu",)
    assert "gpu: made up is no choice: lost" in caplog.text


def test_a_gpu_that_fails_later_is_none_either(
    gpu: _Gpu, graph: Graph, caplog: pytest.LogCaptureFixture
) -> None:
    gpu.seconds = -0.0005
    assert Model(graph, "auto").devices == ("gpu: made up",)
    gpu.error = "no memory"
    with caplog.at_level(logging.INFO, "palmkit.engine"):
        assert Model(graph, "auto").devices == ("cpu",)
    assert "gpu: made up is no choice: no memory" in caplog.text


def test_a_gpu_that_cannot_be_opened_is_no_choice(
    gpu: _Gpu, graph: Graph, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lying(kind: str) -> _Device:
        raise BackendError(f"backend gpu: {kind}: its driver says max-buffer-size 0")

    monkeypatch.setattr("palmkit.engine.backends.gpu.device.device", lying)
    with caplog.at_level(logging.INFO, "palmkit.engine"):
        assert Model(graph, "auto").devices == ("cpu",)
    assert "gpu is no choice: backend gpu: hardware: its driver says" in caplog.text
    assert not gpu.compiled


def test_without_a_gpu_plans_of_files_are_used(gpu: _Gpu, graph: Graph, tmp_path: Path) -> None:
    gpu.reason = "none"
    save(graph, tmp_path / "a.palm")
    model = load(tmp_path / "a.palm", backend="auto")
    assert model.devices == ("cpu",) and model.arena_bytes == 0 and gpu.compiled == 0


def test_it_is_among_the_known_ones() -> None:
    with pytest.raises(BackendError, match="known: reference, cpu, .*, auto"):
        chain("fastest")
