"""Runs of backend gpu: handed over by PalmKit's runtime, and by Python as for unknown libraries."""

import threading
import time
from ctypes import CFUNCTYPE, c_void_p, cast
from importlib import import_module
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu import program as gpu_program
from palmkit.engine.backends.gpu import recording as gpu_recording
from palmkit.engine.backends.gpu import runtime as gpu_runtime
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.backends.sharing import check_threads_share
from tests.engine.backends.test_gpu import (
    KIND,
    MISSING,
    NAME,
    net,
    net_with_numpy_between,
    picture,
)
from tests.engine.backends.test_gpu_limits import changed, lowered

UNKNOWN = (30, 1, 0, 0)

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")


@pytest.fixture(params=["runtime, asleep", "runtime, awake", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class that hands over runs, of a device opened for the test."""
    monkeypatch.setattr(gpu_device, "_devices", {})
    if request.param == "python":
        use_unknown_library(monkeypatch)
        return gpu_recording.Recording
    awake_s = 10.0 if request.param == "runtime, awake" else 0.0
    monkeypatch.setitem(gpu_device.AWAKE_S, KIND, awake_s)
    return gpu_runtime.RuntimeRecording


def use_unknown_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_device, "_devices", {})
    native = import_module("wgpu.backends.wgpu_native")
    monkeypatch.setattr(native, "lib_version_info", UNKNOWN)


def chain(nodes: int, dims: tuple[int, ...] = (3,)) -> Graph:
    """Operators that nothing joins, each a dispatch."""
    chained = [
        Node("relu" if i % 2 else "exp", (f"v{i}",), (f"v{i + 1}",), {}, f"n{i}")
        for i in range(nodes)
    ]
    one = Type("float32", dims)
    return Graph({"v0": one}, {f"v{nodes}": one}, tuple(chained))


def lose_device() -> None:
    gpu_device.device(KIND).gpu.destroy()


def test_runs_are_handed_over_in_one_way(way: Any) -> None:
    recording = gpu_device.device(KIND).recorded(())
    assert type(recording) is way


def test_a_library_that_the_runtime_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = engine.Model(net(), NAME).run(picture())["y"]
    use_unknown_library(monkeypatch)
    model = engine.Model(net(), NAME)
    np.testing.assert_array_equal(model.run(picture())["y"], truth)
    (device,) = model.devices
    assert device.endswith(
        "; PalmKit's runtime knows wgpu-native 29, not 30.1.0.0: Python hands over each dispatch"
    )


def test_inputs_change_from_run_to_run(way: Any) -> None:
    model, reference = engine.Model(net(), NAME), engine.Model(net(), "reference")
    for seed in range(3):
        given = {"x": np.random.default_rng(seed).random((1, 3, 16, 12), np.float32)}
        np.testing.assert_allclose(model.run(given)["y"], reference.run(given)["y"], atol=1e-5)


def test_threads_share_a_model(way: Any) -> None:
    model = engine.Model(net(), NAME)
    check_threads_share(model, picture())


def test_other_threads_of_python_go_on_within_a_run(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Long enough for many turns on either.
    size = 1 << (18 if KIND == "software" else 23)
    model = engine.Model(chain(150, (size,)), NAME)
    begun, ended, fetch = threading.Event(), threading.Event(), way._fetch
    given = {"v0": np.full(size, -50, np.float32)}
    model.run(given)

    def fetching(self: Any, *taken: Any) -> None:
        begun.set()
        fetch(self, *taken)
        ended.set()

    def turns() -> int:
        begun.clear()
        ended.clear()
        thread = threading.Thread(target=model.run, args=(given,))
        thread.start()
        begun.wait()
        turns = 0
        while not ended.is_set():
            # Where Python's lock is held in there, this comes back once, when that ends.
            time.sleep(0)
            turns += 1
        thread.join()
        return turns

    monkeypatch.setattr(way, "_fetch", fetching)
    # The system may let the other thread run alone, but not each time.
    assert any(turns() > 50 for _ in range(20))


def test_a_lost_device_is_opened_again(way: Any, caplog: pytest.LogCaptureFixture) -> None:
    model, other = engine.Model(net(), NAME), engine.Model(net(), NAME)
    truth = model.run(picture())["y"]
    lost = gpu_device.device(KIND)
    lose_device()
    with caplog.at_level("WARNING", "palmkit.engine"):
        np.testing.assert_array_equal(model.run(picture())["y"], truth)
    assert lost.lost and "trying again" in caplog.text
    assert gpu_device.device(KIND) is not lost
    caplog.clear()
    # What else was on it is made again without a failed try.
    np.testing.assert_array_equal(other.run(picture())["y"], truth)
    assert not caplog.text
    assert model.profile(picture())


def test_a_device_lost_within_a_run(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine.Model(net(), NAME)
    truth, fetch, fetches = model.run(picture())["y"], gpu_recording.Recording.fetch, list[int]()

    def losing(self: gpu_recording.Recording, *given: Any) -> Any:
        fetches.append(1)
        if len(fetches) == 1:
            lose_device()
        return fetch(self, *given)

    monkeypatch.setattr(gpu_recording.Recording, "fetch", losing)
    np.testing.assert_array_equal(model.run(picture())["y"], truth)
    assert len(fetches) == 2


def test_a_device_lost_between_parts_of_a_run(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = net_with_numpy_between()
    truth = engine.Model(graph, "reference").run(picture())["y"]
    model, host, fetches = engine.Model(graph, NAME), gpu_program.GpuArray.host, list[int]()

    def losing(self: gpu_program.GpuArray) -> Array:
        fetches.append(1)
        if len(fetches) == 1:
            lose_device()
        return host(self)

    monkeypatch.setattr(gpu_program.GpuArray, "host", losing)
    np.testing.assert_allclose(model.run(picture())["y"], truth, atol=1e-5)
    # The first, which failed, what is_inf reads, and the result.
    assert len(fetches) == 3


def test_a_device_lost_between_submits_of_a_run(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = chain(60)
    model, hand_over, parts = engine.Model(graph, NAME), way.hand_over, list[int]()
    x = {"v0": np.array([-50, -90, -1], np.float32)}
    truth = model.run(x)["v60"]

    def losing(self: gpu_recording.Recording, *given: Any) -> None:
        parts.append(1)
        if len(parts) == 2:
            lose_device()
        hand_over(self, *given)

    monkeypatch.setattr(way, "hand_over", losing)
    np.testing.assert_array_equal(model.run(x)["v60"], truth)
    assert len(parts) > 3


def test_a_device_lost_for_good_is_an_error(way: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine.Model(net(), NAME)
    fetch = gpu_recording.Recording.fetch

    def losing(self: gpu_recording.Recording, *given: Any) -> Any:
        lose_device()
        return fetch(self, *given)

    with monkeypatch.context() as patched:
        patched.setattr(gpu_recording.Recording, "fetch", losing)
        with pytest.raises(engine.DeviceLostError, match=r"backend gpu: .*lost"):
            model.run(picture())
    assert model.run(picture())


def test_a_run_is_few_submits_and_its_slices_are_their_own(
    way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = engine.Model(chain(160), NAME)
    x = {"v0": np.array([-50, -90, -1], np.float32)}
    truth, sizes, hand_over = model.run(x)["v160"], list[int](), way.hand_over

    def counted(self: gpu_recording.Recording, writes: Any, before: Any, part: slice, *rest: Any):  # type: ignore[no-untyped-def]
        sizes.append(part.stop - part.start)
        hand_over(self, writes, before, part, *rest)

    monkeypatch.setattr(way, "hand_over", counted)
    np.testing.assert_array_equal(model.run(x)["v160"], truth)
    first, dispatches = gpu_recording.FIRST_SUBMIT, sum(sizes)
    assert sizes == [first, 3 * first, dispatches - 4 * first]
    for slice_ms in (1e-6, 1, 1e6):
        sizes.clear()
        np.testing.assert_array_equal(model.run(x, slice_ms=slice_ms)["v160"], truth)
        assert sizes[0] == first and sum(sizes) == dispatches
        if slice_ms == 1e-6:
            assert sizes[1:] == [1] * (dispatches - first)
    assert sizes == [first, 2 * first, dispatches - 3 * first]


def test_what_is_refused_is_named_and_other_runs_go_on(way: Any) -> None:
    dispatches, plan = lowered(net())
    device = gpu_device.device(KIND)
    right = gpu_program.GpuProgram(device, dispatches, plan, "gpu")
    truth = right.run(picture())["y"]
    wrong_list = changed(dispatches, workgroups=(1 << 20, 1))
    wrong = gpu_program.GpuProgram(device, wrong_list, plan, "gpu")
    for _ in range(3):
        with pytest.raises(
            engine.BackendError, match=r"backend gpu: y \(copy\): .*dispatch group size"
        ):
            wrong.run(picture())
        np.testing.assert_array_equal(right.run(picture())["y"], truth)


def test_a_refused_run_leaves_its_program_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatches, plan = lowered(net())
    program = gpu_program.GpuProgram(gpu_device.device(KIND), dispatches, plan, "gpu")
    truth = program.run(picture())["y"]
    submit = gpu_runtime._submit  # pyright: ignore[reportPrivateUsage]

    def too_many(gpu: Any, work: Any, *given: Any) -> None:
        work._obj.dispatches, held = None, work._obj.dispatches
        work._obj.dispatch_count, count = 0, work._obj.dispatch_count
        copy = work._obj.behind[0]
        copy.size, size = 1 << 40, copy.size
        try:
            submit(gpu, work, *given)
        finally:
            work._obj.dispatches, work._obj.dispatch_count = held, count
            copy.size = size

    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(gpu_runtime, "_submit", too_many)
            with pytest.raises(engine.BackendError, match=r"backend gpu: .*Copy"):
                program.run(picture())
        # One by the queue, one by the buffer that is mapped.
        for _ in range(2):
            np.testing.assert_array_equal(program.run(picture())["y"], truth)


def test_what_is_set_already_is_not_set_again() -> None:
    device, kind = gpu_device.device(KIND), CFUNCTYPE(None, c_void_p, c_void_p)
    dispatches, plan = lowered(chain(40))
    program = gpu_program.GpuProgram(device, dispatches, plan, "gpu")
    x = {"v0": np.array([-50, -90, -1], np.float32)}
    truth, found = program.run(x)["v40"], list[int]()
    recording: Any = program._last.recording  # pyright: ignore[reportPrivateUsage]
    table, name = recording._gpu, "ComputePassEncoderSetPipeline"
    real = kind(getattr(table, name))

    def counted(encoder: int, pipeline: int) -> None:
        found.append(pipeline)
        real(encoder, pipeline)

    held = kind(counted)
    setattr(table, name, cast(held, c_void_p).value)
    np.testing.assert_array_equal(program.run(x)["v40"], truth)
    shaders = [each.shader for each in dispatches.dispatches]
    first = gpu_recording.FIRST_SUBMIT
    assert len(shaders) <= 2 * first
    assert len(found) == len([*groupby(shaders)]) < len(shaders)
