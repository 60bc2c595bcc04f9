"""Other engines as backends: ONNX Runtime and OpenVINO on the CPU."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from palmkit import engine, models
from palmkit.engine import verifying
from palmkit.engine.backends import VENDORS, Program
from palmkit.engine.ir import Array, Graph, Node, Type
from tests.engine.backends.sharing import check_threads_share

MESH = Path(next(iter(models.__path__))) / "face_mesh" / "face_mesh.palm"
HERE = [name for name, each in VENDORS.items() if not each.missing()]
each_vendor = pytest.mark.parametrize("name", VENDORS)


@pytest.fixture(autouse=True)
def _installed(request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params.get("name") if hasattr(request.node, "callspec") else None
    if name is not None and name not in HERE:
        pytest.skip(VENDORS[name].missing())


def net(*middle: Node, height: int | str = 16) -> Graph:
    random = np.random.default_rng(0)
    last = middle[-1].outputs[0] if middle else "b"
    return Graph(
        inputs={"x": Type("float32", (1, 3, height, 16))},
        outputs={"y": Type("float32", (1, 4, height, 16))},
        nodes=(
            Node("conv", ("x", "w"), ("a",), {"pads": (1, 1, 1, 1)}, "first"),
            Node("relu", ("a",), ("b",)),
            *middle,
            Node("conv", (last, "v"), ("y",), {"pads": (1, 1, 1, 1)}, "last"),
        ),
        constants={
            "w": random.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32),
            "v": random.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32),
        },
    )


def picture(height: int = 16) -> dict[str, Array]:
    return {"x": np.random.default_rng(1).random((1, 3, height, 16), np.float32)}


@each_vendor
def test_it_gives_what_the_definition_gives(name: str) -> None:
    for graph, inputs in ((net(), picture()), (net(height="h"), picture(24))):
        model = engine.Model(graph, name)
        truth = engine.Model(graph, "reference").run(inputs)["y"]
        np.testing.assert_allclose(model.run(inputs)["y"], truth, atol=1e-5)
        assert not model.fallbacks
        assert [each.split(":")[0] for each in model.devices] == [name]


@each_vendor
def test_a_shipped_network_runs_as_on_the_cpu(name: str) -> None:
    model = engine.load(MESH, name, threads=2, verify=True)
    random = np.random.default_rng(2)
    inputs = {
        key: random.uniform(0, 255, type.dims).astype(type.dtype)
        for key, type in model.inputs.items()
    }
    truth = engine.load(MESH).run(inputs)
    for key, found in model.run(inputs).items():
        assert found.dtype == truth[key].dtype
        bound = 1e-4 * float(np.abs(truth[key]).max())
        np.testing.assert_allclose(found, truth[key], atol=bound)


@each_vendor
def test_what_onnx_cannot_say_goes_to_the_next(name: str) -> None:
    strange = Node("magic", ("b",), ("m",))
    graph = net(Node("multiply_add", ("b", "k", "k"), ("m",)))
    graph = graph.with_nodes(
        graph.nodes, {**graph.constants, "k": np.full((1, 1, 1), 0.5, np.float32)}
    )
    truth = engine.Model(graph, "reference").run(picture())["y"]
    alone, helped = engine.Model(graph, name), engine.Model(graph, (name, "cpu"))
    for model in (alone, helped):
        np.testing.assert_allclose(model.run(picture())["y"], truth, atol=1e-5)
    assert "ONNX has no multiply_add" in alone.fallbacks["m"]
    assert [each.split(":")[0] for each in alone.devices] == [name, "numpy"]
    assert [each.split(":")[0] for each in helped.devices] == [name, "cpu"]
    with pytest.raises(engine.UnsupportedError, match="magic"):
        engine.Model(net(strange), name)


@each_vendor
def test_threads_share_a_model(name: str) -> None:
    model = engine.Model(net(), name)
    check_threads_share(model, picture())


@each_vendor
def test_after_a_fork_it_says_that_it_is_over(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, process = engine.Model(net(), name), os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    with pytest.raises(engine.BackendError, match="do not survive a fork"):
        model.run(picture())


@each_vendor
def test_the_engines_own_error_is_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Graph) -> bytes:
        return b"no model"

    monkeypatch.setattr("palmkit.engine.exporters.onnx.dumps", broken)
    with pytest.raises(engine.BackendError, match=f"^backend {name}: ") as failed:
        engine.Model(net(), name)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("onnxruntime:gpu", "no device 'gpu'; known: cpu, cuda"),
        ("openvino:TPU", "no device 'TPU'; known: CPU, GPU, NPU"),
        ("cpu:0", "backend cpu has no devices to choose from"),
        ("vulkan", "no backend 'vulkan'; known: reference, cpu, gpu, onnxruntime, openvino"),
        ((), "expected a backend"),
    ],
)
def test_names_that_nothing_has_are_refused(backend: str | Sequence[str], message: str) -> None:
    with pytest.raises(engine.BackendError, match=message):
        engine.Model(net(), backend)


def test_a_device_that_is_not_there_is_an_error_with_the_reason() -> None:
    for name, device in (("onnxruntime", "qnn"), ("openvino", "NPU")):
        backend = f"{name}:{device}"
        if name in HERE and device not in VENDORS[name].there():
            with pytest.raises(
                engine.BackendError, match=f"{backend} is not available.*it (has|finds)"
            ):
                engine.Model(net(), backend)


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        """There is no package of this name."""

    monkeypatch.setattr("palmkit.engine.backends.vendors.vendor.find_spec", nowhere)
    for name in VENDORS:
        with pytest.raises(
            engine.BackendError, match=rf'it needs .*pip install "palmkit\[{name}\]"'
        ):
            engine.Model(net(), name)
        assert not VENDORS[name].there()


class Wrong:
    """A program that is off by a part of the output's range."""

    devices = ("wrong",)

    def __init__(self, graph: Graph, off: float) -> None:
        self._right, self._off = engine.Model(graph, "reference"), off

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        (y,) = self._right.run(inputs).values()
        return {
            "y": np.where(np.arange(y.size).reshape(y.shape) == 5, y + np.ptp(y) * self._off, y)
        }


@pytest.mark.parametrize("off", [2e-3, np.nan, -np.inf])
def test_wrong_numbers_are_found_when_the_model_is_made(off: float) -> None:
    with pytest.raises(
        engine.BackendError, match="^wrong: output y is off by (inf|0.00..?) of its"
    ):
        verifying.verify(net(), Wrong(net(), off))  # type: ignore[arg-type]
    verifying.verify(net(), Wrong(net(), 2e-4))  # type: ignore[arg-type]


def test_the_own_backend_is_verified_with_open_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Graph] = []

    def ask(graph: Graph, program: Program) -> None:
        asked.append(graph)

    monkeypatch.setattr(verifying, "verify", ask)
    model = engine.Model(net(height="h"), verify=True)
    for height in (16, 24, 16):
        model.run(picture(height))
    assert [graph.inputs["x"].dims[2] for graph in asked] == [16, 24]
    assert model.devices == ("cpu",)
