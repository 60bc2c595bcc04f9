"""Backend gpu on devices that can do less than a network wants, or than their drivers say."""

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu import emission as gpu_emission
from palmkit.engine.backends.gpu import program as gpu_program
from palmkit.engine.backends.gpu import shader as gpu_shader
from palmkit.engine.backends.gpu.dispatches import DispatchList
from palmkit.engine.backends.gpu.lowering import lower
from palmkit.engine.backends.gpu.windows import windows
from palmkit.engine.backends.partition import specialise
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.steps.plan import Plan
from palmkit.engine.steps.refusal import RefusedError
from tests.engine.backends.test_gpu import (
    KIND,
    MISSING,
    NAME,
    NETWORKS,
    assert_near,
    inputs_of,
    net,
    picture,
)

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")

(FINDER,) = (path for path in NETWORKS if path.stem == "person_finder")


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the device be able to do less."""

    def limit(**limits: Any) -> None:
        device = gpu_device.device(KIND)
        monkeypatch.setattr(device, "target", replace(device.target, **limits))

    return limit


def lowered(graph: Graph, **limits: Any) -> tuple[DispatchList, Plan]:
    target = replace(gpu_device.device(KIND).target, **limits)
    dispatches, plan, _ = lower(specialise(graph, graph.inputs, Gpu(KIND)), target)
    return dispatches, plan


def large(axis: int = 1) -> Graph:
    """A chain of which every value takes 4 KiB, but for the last, which takes three times that."""
    nodes, shape = 6, [1, 4, 16, 16]
    chain = [Node("sigmoid" if i % 2 else "exp", (f"v{i}",), (f"v{i + 1}",)) for i in range(nodes)]
    last = Node("concat", ("v1", f"v{nodes}", "v2"), ("y",), {"axis": axis}, "last")
    joined = [3 * dim if i == axis else dim for i, dim in enumerate(shape)]
    inputs, outputs = Type("float32", tuple(shape)), Type("float32", tuple(joined))
    return Graph({"v0": inputs}, {"y": outputs}, (*chain, last))


def values() -> dict[str, Array]:
    return {"v0": np.random.default_rng(0).random((1, 4, 16, 16), np.float32)}


def test_an_arena_over_what_one_binding_may_be_is_bound_in_parts(
    limited: Callable[..., None],
) -> None:
    truth = engine.Model(large(), "reference").run(values())["y"]
    limited(binding_bytes=12 << 10)
    dispatches, _ = lowered(large(), binding_bytes=12 << 10)
    assert dispatches.arena_elements * 4 > 12 << 10
    assert max(len(each.windows) for each in dispatches.dispatches) == 2
    for each in dispatches.dispatches:
        for begin, size in each.windows:
            assert begin % 256 == 0 and size <= 12 << 10
    model = engine.Model(large(), NAME)
    assert not model.fallbacks
    assert_near(model.run(values())["y"], truth)


def test_a_network_in_parts_gives_the_same(limited: Callable[..., None]) -> None:
    model = engine.load(FINDER, NAME)
    given = inputs_of(model)
    truth = model.run(given)
    limited(binding_bytes=300 << 10)
    model = engine.load(FINDER, NAME)
    for name, found in model.run(given).items():
        assert_near(found, truth[name])
    assert not model.fallbacks


def test_windows_are_apart() -> None:
    spans = [(1000, 1100), (300, 700), (5000, 5001), (1100, 1500)]
    assert windows(spans, 8000, 8000) == (((0, 8000),), [0, 0, 0, 0])
    # The first and the last share 256 bytes that begin at a multiple of that.
    assert windows(spans, 8000, 768) == (((256, 512), (768, 768), (4864, 256)), [1, 0, 2, 1])
    with pytest.raises(engine.UnsupportedError, match="of 768 bytes, over the device's limit of"):
        windows(spans, 8000, 767)


def test_nodes_over_the_limits_run_elsewhere(limited: Callable[..., None]) -> None:
    truth = engine.Model(large(3), "reference").run(values())["y"]
    limited(binding_bytes=9 << 10)
    model = engine.Model(large(3), (NAME, "cpu"))
    assert_near(model.run(values())["y"], truth)
    assert len(model.devices) == 2 and "cpu" in model.devices
    model = engine.Model(large(3), NAME)
    assert_near(model.run(values())["y"], truth)
    reason = r"last \(copy\): operands of \d+ bytes, over the device's limit of 9216"
    assert re.search(reason, model.fallbacks["y"])


def test_weights_over_the_limits_are_named() -> None:
    with pytest.raises(RefusedError, match=r"first \(conv\): .*over the device's limit of 512"):
        lowered(net(), binding_bytes=512)


def test_workgroups_over_the_limits_are_named() -> None:
    with pytest.raises(RefusedError, match=r"first \(\w+\): \d+ workgroups, over .* limit of 1\b"):
        lowered(net(), groups=1)
    dispatches, plan = lowered(net(), groups=7)
    assert max(each.workgroups[1] for each in dispatches.dispatches) > 1
    program = gpu_program.GpuProgram(gpu_device.device(KIND), dispatches, plan, "gpu")
    assert_near(program.run(picture())["y"], engine.Model(net(), "reference").run(picture())["y"])


def test_workgroups_keep_to_their_memory() -> None:
    graph = Graph(
        {"x": Type("float32", (1, 512, 32, 32))},
        {"y": Type("float32", (1, 64, 32, 32))},
        (Node("conv", ("x", "w"), ("y",)),),
        {"w": np.ones((64, 512, 1, 1), np.float32)},
    )

    def used(shared_bytes: int) -> int:
        limits = {"threads": 256, "invocations": 1 << 16, "shared_bytes": shared_bytes}
        dispatches, _ = lowered(graph, **limits)
        sizes = re.findall(r"shared_parts: array<vec4<f32>, (\d+)>", "".join(dispatches.shaders))
        return max((16 * int(size) for size in sizes), default=0)

    assert 4096 < used(1 << 15) <= 1 << 15
    assert used(4096) <= 4096


@pytest.mark.parametrize(
    ("shape", "outputs", "kernel", "stride", "group"),
    [
        ((16, 20, 21), 64, 3, 1, 1),
        ((48, 13, 13), 64, 5, 2, 1),
        ((3, 30, 30), 64, 7, 2, 1),
        ((64, 14, 14), 96, 3, 1, 2),
    ],
)
def test_threads_of_a_wide_device_share_out_a_window(
    limited: Callable[..., None],
    shape: tuple[int, int, int],
    outputs: int,
    kernel: int,
    stride: int,
    group: int,
) -> None:
    limited(invocations=1 << 16, threads=256, shared_bytes=48 << 10)
    channels, *sizes = shape
    random = np.random.default_rng(0)
    weights = random.normal(0, 0.1, (outputs, channels // group, kernel, kernel))
    pads, strides = (kernel // 2,) * 4, (stride, stride)
    graph = Graph(
        {"x": Type("float32", (1, *shape))},
        {"y": Type("float32", (1, outputs, *(-(-size // stride) for size in sizes)))},
        (Node("conv", ("x", "w"), ("y",), {"pads": pads, "strides": strides, "group": group}),),
        {"w": weights.astype(np.float32)},
    )
    dispatches, plan = lowered(graph)
    assert any("let band" in shader for shader in dispatches.shaders)
    program = gpu_program.GpuProgram(gpu_device.device(KIND), dispatches, plan, "gpu")
    given = {"x": random.random((1, *shape), np.float32)}
    assert_near(program.run(given)["y"], engine.Model(graph, "reference").run(given)["y"])


def test_what_there_is_no_memory_for_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    device = gpu_device.device(KIND)
    monkeypatch.setattr(device, "buffer_bytes", 4096)
    said = r"the arena, for \d+ that first \(conv\) writes, of \d+ bytes, .* have at most 4096"
    with pytest.raises(engine.BackendError, match=said):
        engine.Model(net(), NAME)
    monkeypatch.undo()
    # As by a driver that says it can have more than it can.
    dispatches, plan = lowered(net())
    monkeypatch.setattr(device, "buffer_bytes", 1 << 62)
    much = replace(dispatches, arena_elements=1 << 40)
    with pytest.raises(engine.BackendError, match=r"first \(conv\) writes, of \d+ bytes: .*size"):
        gpu_program.GpuProgram(device, much, plan, "gpu")
    assert engine.Model(net(), NAME).run(picture())


def changed(dispatches: DispatchList, **changes: Any) -> DispatchList:
    """The same with another last dispatch."""
    *others, last = dispatches.dispatches
    return replace(dispatches, dispatches=(*others, replace(last, **changes)))


def test_what_the_device_refuses_when_it_runs_is_named() -> None:
    dispatches, plan = lowered(net())
    wrong = changed(dispatches, workgroups=(1 << 20, 1))
    program = gpu_program.GpuProgram(gpu_device.device(KIND), wrong, plan, "gpu")
    with pytest.raises(
        engine.BackendError, match=r"backend gpu: y \(copy\): .*dispatch group size"
    ):
        program.run(picture())


def test_errors_are_of_the_thread_that_made_them() -> None:
    dispatches, plan = lowered(net())
    device = gpu_device.device(KIND)
    right = gpu_program.GpuProgram(device, dispatches, plan, "gpu")
    wrong_list = changed(dispatches, workgroups=(1 << 20, 1))
    wrong = gpu_program.GpuProgram(device, wrong_list, plan, "gpu")
    found: dict[str, list[str]] = {"right": [], "wrong": []}

    def work(name: str, program: gpu_program.GpuProgram) -> None:
        for _ in range(50):
            try:
                program.run(picture())
                found[name].append("")
            except engine.BackendError as error:
                found[name].append("y (copy)" if "y (copy)" in f"{error}" else f"{error}")

    threads = [
        threading.Thread(target=work, args=each) for each in (("right", right), ("wrong", wrong))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"right": [""] * 50, "wrong": ["y (copy)"] * 50}


def test_what_the_device_does_not_bind_is_named() -> None:
    dispatches, plan = lowered(net())
    wrong = changed(dispatches, windows=((0, 1 << 24),))
    with pytest.raises(engine.BackendError, match=r"backend gpu: y \(copy\): "):
        gpu_program.GpuProgram(gpu_device.device(KIND), wrong, plan, "gpu")


def test_a_shader_that_the_device_cannot_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def huge(emission: gpu_emission.Emission, step: Any) -> None:
        shader = gpu_shader.Shader(emission, step, wide=False)
        shader.run(["let a = 1;"], 1, threads=1 << 16)

    monkeypatch.setitem(gpu_emission.EMITTERS, "conv", huge)
    with pytest.raises(engine.BackendError, match=r"backend gpu: first \(conv\): .*Workgroup size"):
        engine.Model(net(), NAME)


def test_a_driver_whose_limits_nobody_can_work_with(monkeypatch: pytest.MonkeyPatch) -> None:
    (real, *_) = gpu_device.adapters(KIND)
    limits = {**real.limits, "max-compute-invocations-per-workgroup": 0}
    wrong = SimpleNamespace(info=real.info, features=real.features, limits=limits)

    def adapters(kind: str) -> list[Any]:
        return [wrong]

    monkeypatch.setattr(gpu_device, "adapters", adapters)
    monkeypatch.setattr(gpu_device, "_devices", {})
    said = r"max-compute-invocations-per-workgroup 0, less than 64"
    with pytest.raises(engine.BackendError, match=said):
        engine.Model(net(), NAME)
