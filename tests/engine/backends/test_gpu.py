"""Backend gpu: its kernels on an adapter in software, or with GPU=hardware on the machine's own.

GPU_CASES=all runs every case of every operator, and every network (`make gpu`).
"""

import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine, models
from palmkit.engine.backends.gpu import Gpu
from palmkit.engine.backends.gpu import device as gpu_device
from palmkit.engine.backends.gpu import emission as gpu_emission
from palmkit.engine.backends.gpu import program as gpu_program
from palmkit.engine.backends.gpu import shader as gpu_shader
from palmkit.engine.backends.gpu.lowering import lower
from palmkit.engine.ir import Array, Graph, Node, Type
from palmkit.engine.ops import Case, Op, run_reference
from tests.engine.backends.gpu_objects import objects
from tests.engine.refusals import attempt, expected, expected_reason, supports
from tests.engine.test_ops import CASES, SPECIAL, UNARY, arrays, by_op, label, one_node

KIND = os.environ.get("GPU", "software")
NAME = f"gpu:{KIND}"
MISSING = Gpu(KIND).missing()
EVERY = os.environ.get("GPU_CASES") == "all"
# Of the range of an output's numbers.
BOUND = 1e-4
NETWORKS = sorted(Path(next(iter(models.__path__))).glob("*/*.palm"))
TEACHERS = sorted((Path(__file__).parents[4] / "shared" / "teachers").glob("*.tflite"))
# Their angles may be as large as that.
ANGLES = {"cos": 1e30, "sin": 1e30, "tan": 1e30}

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"{NAME}: {MISSING}")


def chosen() -> list[tuple[Op, Case]]:
    """All cases, or the first two of each operator and the last."""
    if EVERY:
        return CASES
    of_ops: dict[str, list[tuple[Op, Case]]] = {}
    for op, case in CASES:
        of_ops.setdefault(op.name, []).append((op, case))
    return [
        case
        for name, cases in of_ops.items()
        if supports(NAME, name)
        for case in (*cases[:2], *cases[2:][-1:])
    ]


def assert_near(got: Array, wanted: Array) -> None:
    """Floats to BOUND of their range, all else the same."""
    assert Type.of(got) == Type.of(wanted)
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
        return
    finite = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64)
    atol = BOUND * float(finite.max(initial=0))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=atol)


@by_op(chosen())
def test_operators(op: Op, case: Case) -> None:
    graph, inputs = one_node(op, case), arrays(case)
    program, reason = attempt(NAME, graph)
    assert reason == expected_reason(NAME, op.name, label(case)), "see tests/engine/refused"
    if program is None:
        return
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None and f"x{i}" in graph.inputs}
    outputs = program.run(given)
    for name, wanted in zip(graph.outputs, run_reference(graph.nodes[0], inputs), strict=False):
        assert_near(outputs[name], wanted)


def test_expected_refusals_are_of_cases_of_ops_it_supports() -> None:
    taken = {op.name for op, _ in CASES if supports(NAME, op.name)}
    assert expected(NAME).keys() <= {(op.name, label(c)) for op, c in CASES if op.name in taken}


@pytest.mark.parametrize("op", [op for op in UNARY if supports(NAME, op.name)], ids=label)
def test_nan_and_infinity_go_through(op: Op) -> None:
    # Denormal numbers may count as zero.
    known = SPECIAL[(SPECIAL == 0) | ~(np.abs(SPECIAL) < 1e-30)]
    given = np.tile(known[~(np.abs(known) > ANGLES.get(op.name, np.inf))], 7)
    graph = one_node(op, Case((given,)))
    program, reason = attempt(NAME, graph)
    assert program is not None, reason
    with np.errstate(all="ignore"):
        (wanted,) = run_reference(graph.nodes[0], [given])
    np.testing.assert_allclose(program.run({"x0": given})["y0"], wanted, rtol=1e-4, atol=1e-6)


def inputs_of(model: engine.Model) -> dict[str, Array]:
    random = np.random.default_rng(2)
    found: dict[str, Array] = {}
    for name, type in model.inputs.items():
        # Of dims that are open, the first is a batch and the others are of pictures.
        dims = [d if isinstance(d, int) else 160 if i else 1 for i, d in enumerate(type.shape)]
        floats = np.dtype(type.dtype).kind == "f"
        values = random.random(dims) if floats else random.integers(0, 2, dims)
        found[name] = values.astype(type.dtype)
    return found


@pytest.mark.parametrize(
    "path",
    [*NETWORKS, *TEACHERS] if EVERY else [p for p in NETWORKS if p.stem == "person_finder"],
    ids=lambda path: path.stem,
)
def test_networks_run_as_on_the_cpu(path: Path) -> None:
    model = engine.load(path, NAME)
    given = inputs_of(model)
    found = model.run(given)
    for name, wanted in engine.load(path).run(given).items():
        assert_near(found[name], wanted)


def net(middle: Node | None = None, **constants: Array) -> Graph:
    random = np.random.default_rng(0)
    nodes = [Node("conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}, "first")]
    nodes += [middle] if middle else []
    last = middle.outputs[0] if middle else "a"
    nodes.append(Node("mul", ("a", last), ("y",), {}, "last"))
    return Graph(
        inputs={"x": Type("float32", (1, 3, 16, 12))},
        outputs={"y": Type("float32", (1, 4, 16, 12))},
        nodes=tuple(nodes),
        constants={"w": random.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32), **constants},
    )


def net_with_numpy_between() -> Graph:
    """A net of which one node has no kernel there."""
    graph = net(Node("is_inf", ("a",), ("i",)))
    *nodes, last = graph.nodes
    cast = Node("cast", ("i",), ("f",), {"to": "float32"})
    return graph.with_nodes((*nodes, cast, replace(last, inputs=("a", "f"))))


def picture() -> dict[str, Array]:
    return {"x": np.random.default_rng(1).random((1, 3, 16, 12), np.float32)}


def test_a_model_names_the_device() -> None:
    model = engine.Model(net(), NAME, verify=True)
    (device,) = model.devices
    assert device.startswith("gpu: ") and "(Vulkan" in device
    assert ("software" in device) == (KIND == "software")
    truth = engine.Model(net(), "reference").run(picture())["y"]
    np.testing.assert_allclose(model.run(picture())["y"], truth, atol=1e-5)


def test_values_stay_on_the_device_round_what_the_cpu_does(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = net_with_numpy_between()
    fetched: list[tuple[int, ...]] = []
    host = gpu_program.GpuArray.host

    def counted(self: gpu_program.GpuArray) -> Array:
        fetched.append(self.border.dims)
        return host(self)

    monkeypatch.setattr(gpu_program.GpuArray, "host", counted)
    truth = engine.Model(graph, "reference").run(picture())["y"]
    for backend in (NAME, (NAME, "cpu")):
        fetched.clear()
        model = engine.Model(graph, backend)
        np.testing.assert_allclose(model.run(picture())["y"], truth, atol=1e-5)
        assert "no kernel for is_inf" in model.fallbacks["i"]
        # What is_inf reads, and the result; the product reads "a" where it lies.
        assert len(fetched) == 2


def test_what_a_model_has_on_the_device_goes_with_it() -> None:
    gc.collect()
    before = objects()
    gc.disable()
    try:
        for graph in (net(), net_with_numpy_between()):
            model = engine.Model(graph, NAME)
            model.run(picture())
            model.profile(picture(), runs=1)
            during = objects()
            assert all(during[kind] > before[kind] for kind in ("bindGroups", "buffers"))
            del model
            after = objects()
            # Compiled shaders stay.
            assert {**after, "computePipelines": 0} == {**before, "computePipelines": 0}
    finally:
        gc.enable()


@pytest.mark.parametrize(("kept", "times"), [(gpu_device.PIPELINES_KEPT, 1), (0, 3)])
def test_compiled_shaders_stay(monkeypatch: pytest.MonkeyPatch, kept: int, times: int) -> None:
    module, compiled = gpu_device.Device._module, list[str]()  # pyright: ignore[reportPrivateUsage]

    def counted(self: gpu_device.Device, source: str) -> Any:
        compiled.append(source)
        return module(self, source)

    monkeypatch.setattr(gpu_device, "_devices", {})
    monkeypatch.setattr(gpu_device, "PIPELINES_KEPT", kept)
    monkeypatch.setattr(gpu_device.Device, "_module", counted)
    results = [engine.Model(net(), NAME).run(picture())["y"] for _ in range(3)]
    np.testing.assert_array_equal(results[1:], [results[0]] * 2)
    assert len(set(compiled)) > 1
    assert len(compiled) == times * len(set(compiled))


def test_every_dispatch_has_a_time() -> None:
    model = engine.Model(net(), NAME)
    times = model.profile(picture(), runs=2)
    assert {"first", "last"} <= {each.node for each in times}
    assert all(each.seconds >= 0 for each in times)


def test_weights_over_what_one_binding_may_be_are_shared_out() -> None:
    device = gpu_device.device(KIND)
    graph = Gpu(KIND).prepared(
        Graph(
            {"x": Type("float32", (1, 64))},
            {"y": Type("float32", (1, 64))},
            tuple(Node("matmul", (a, w), (b,)) for a, w, b in ("xuc", "cvd", "dwy")),
            {name: np.eye(64, dtype=np.float32) * 2 for name in "uvw"},
        )
    )
    small = replace(device.target, binding_bytes=2 * 64 * 64 * 4)
    dispatches, plan, _ = lower(graph, small)
    assert len(dispatches.pages) == 2
    program = gpu_program.GpuProgram(device, dispatches, plan, "gpu")
    x = np.arange(64, dtype=np.float32)[None]
    np.testing.assert_allclose(program.run({"x": x})["y"], 8 * x)
    with pytest.raises(engine.UnsupportedError, match="over the device's limit of 4096"):
        lower(graph, replace(device.target, binding_bytes=4096))


def test_a_shader_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    engine.Model(net(), NAME)
    emitters = gpu_emission.EMITTERS

    def strange(emission: gpu_emission.Emission, step: Any) -> None:
        gpu_shader.Shader(emission, step, wide=False).run(["let a = strange;"], 1)

    monkeypatch.setitem(emitters, "conv", strange)
    with pytest.raises(engine.BackendError, match=r"backend gpu: first \(conv\): .*strange"):
        engine.Model(net(), NAME)


def test_numbers_that_32_bits_do_not_hold_are_refused() -> None:
    graph = Graph(
        {"x": Type("int64", (3,))},
        {"y": Type("int64", (4,))},
        (Node("concat", ("x", "k"), ("y",), {"axis": 0}),),
        {"k": np.array([7])},
    )
    model = engine.Model(graph, NAME)
    np.testing.assert_array_equal(model.run({"x": np.array([1, -2, 3])})["y"], [1, -2, 3, 7])
    with pytest.raises(engine.BackendError, match="input x: integers from 1 to 4294967296"):
        model.run({"x": np.array([1, 2, 1 << 32])})


def test_after_a_fork_it_says_that_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model, process = engine.Model(net(), NAME), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(engine.BackendError, match="do not survive a fork"):
        model.run(picture())
    assert "does not survive a fork" in Gpu(KIND).missing()


def test_what_is_missing_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(engine.BackendError, match="no device 'toaster'; known: hardware, software"):
        engine.Model(net(), "gpu:toaster")
    others = {"hardware": "software", "software": "hardware"}
    there = gpu_device.adapters(KIND)

    def only(kind: str) -> list[Any]:
        return there if kind == KIND else []

    def no_package(name: str) -> None:
        assert name == "wgpu"

    monkeypatch.setattr(gpu_device, "adapters", only)
    reason = f"no {others[KIND]} adapter of Vulkan, Metal, D3D12, only {there[0].info['device']}"
    with pytest.raises(engine.BackendError) as caught:
        engine.Model(net(), f"gpu:{others[KIND]}")
    assert reason in f"{caught.value}"
    monkeypatch.setattr(gpu_device, "find_spec", no_package)
    assert Gpu().missing() == 'it needs wgpu: pip install "palmkit[gpu]"'
    assert not Gpu().there()
