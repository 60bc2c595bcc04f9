"""Which threads do a run, before or behind which others, on which cores, and in which slices."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from palmkit.engine import BackendError, Graph, Model, Type
from palmkit.engine.ir import Array, Node

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
INPUTS = {"x": np.linspace(-2, 2, 3 * 64 * 64, dtype=np.float32).reshape(1, 3, 64, 64)}


@pytest.fixture(scope="module")
def graph() -> Graph:
    weights = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    nodes = (
        Node("conv", ("x", "w"), ("c",), {"pads": (1, 1, 1, 1)}),
        Node("relu", ("c",), ("y",)),
    )
    type = Type("float32", (1, 3, 64, 64))
    return Graph({"x": type}, {"y": Type("float32", (1, 8, 64, 64))}, nodes, {"w": weights})


def threads_of(model: Callable[[], Model]) -> tuple[Model, list[str]]:
    """The model, and the threads of this process that it started."""
    before = set(os.listdir("/proc/self/task"))
    made = model()
    made.run(INPUTS)
    return made, sorted(set(os.listdir("/proc/self/task")) - before)


def nice_of(thread: str) -> int:
    # Behind the name, which may have spaces, nice is the 17th field.
    fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
    return int(fields[16])


def until(told: Callable[[], list[object]], expected: list[object]) -> None:
    """Wait for it: a thread is placed before the first thing that it does, not before it starts."""
    end = time.monotonic() + 30
    while told() != expected and time.monotonic() < end:
        time.sleep(0.01)
    assert told() == expected


def same(a: Mapping[str, Array], b: Mapping[str, Array]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in b)


@LINUX
@pytest.mark.parametrize("threads", [1, 2])
def test_low_priority_is_that_of_all_threads_of_a_run(graph: Graph, threads: int) -> None:
    model, started = threads_of(lambda: Model(graph, threads=threads, priority="low"))
    until(lambda: [nice_of(each) for each in started], [10] * threads)
    assert nice_of(str(os.getpid())) == 0
    assert same(model.run(INPUTS), Model(graph).run(INPUTS))


@LINUX
def test_threads_stay_on_their_cores(graph: Graph) -> None:
    core = max(os.sched_getaffinity(0))
    all_cores = os.sched_getaffinity(0)
    model, started = threads_of(lambda: Model(graph, threads=2, cores=[core]))
    until(lambda: [os.sched_getaffinity(int(each)) for each in started], [{core}] * 2)
    assert os.sched_getaffinity(0) == all_cores
    assert same(model.run(INPUTS), Model(graph).run(INPUTS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_has_threads_of_its_own(graph: Graph) -> None:
    model = Model(graph, priority="low")
    expected = model.run(INPUTS)
    child = os.fork()
    if child == 0:
        os._exit(0 if same(model.run(INPUTS), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_cores_that_there_are_not(graph: Graph) -> None:
    with pytest.raises(BackendError, match=r"cores: 4095 is none|cores: 4095: this system"):
        Model(graph, cores=[4095])
    with pytest.raises(ValueError, match=r"cores: expected numbers from 0 to 2147483647, got -1"):
        Model(graph, cores=[-1])


def test_a_priority_that_there_is_not(graph: Graph) -> None:
    with pytest.raises(ValueError, match="priority: expected one of"):
        Model(graph, priority="urgent")


@pytest.mark.parametrize("threads", [1, 2])
def test_slices_change_no_number(graph: Graph, threads: int) -> None:
    model = Model(graph, threads=threads)
    assert same(model.run(INPUTS, slice_ms=0.1), model.run(INPUTS))


def test_parts_run_in_slices(graph: Graph) -> None:
    chained = Model(graph, ("cpu", "reference"))
    assert same(chained.run(INPUTS, slice_ms=1), chained.run(INPUTS))


@pytest.mark.parametrize("slice_ms", [0, -1, float("nan"), float("inf")])
def test_slices_that_are_none(graph: Graph, slice_ms: float) -> None:
    with pytest.raises(ValueError, match="slice_ms: expected a number above 0"):
        Model(graph).run(INPUTS, slice_ms=slice_ms)


def test_a_backend_without_slices_says_so(graph: Graph) -> None:
    with pytest.raises(BackendError, match="slice_ms: reference runs a model in one go"):
        Model(graph, "reference").run(INPUTS, slice_ms=1)
